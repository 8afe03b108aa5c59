"""The form that libraries use: the row's maximum is subtracted first, so that exp never exceeds 1.

softmax(x) = softmax(x - c) for any c. What it costs: x - max is rounded, by up to |x - max| / 2 units in the last place
of the result (docs/numerics.md, section 1). A row of -inf alone gives NaN, as in `libsoftmax`.
"""

import numpy as np


def softmax(x, axis=-1):
    """y_i = exp(x_i - m) / sum_j exp(x_j - m), m = max x."""
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)


def logsumexp(x, axis=-1):
    """m + log sum_j exp(x_j - m). A row of -inf alone gives -inf: there m is no number to subtract."""
    m = x.max(axis=axis, keepdims=True)
    m = np.where(np.isfinite(m), m, x.dtype.type(0))
    with np.errstate(divide="ignore", over="ignore"):
        return (m + np.log(np.exp(x - m).sum(axis=axis, keepdims=True))).squeeze(axis)


def log_softmax(x, axis=-1):
    """y_i = (x_i - m) - log sum_j exp(x_j - m): the logarithm of the sum, never of the quotient, which may be 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        d = x - x.max(axis=axis, keepdims=True)
        return d - np.log(np.exp(d).sum(axis=axis, keepdims=True))


def softmax_backward(y, dy, axis=-1):
    """dx_i = y_i (dy_i - sum_j dy_j y_j): the Jacobian y_i (d_ij - y_j) applied to dy, collapsed to one sum."""
    return y * (dy - (dy * y).sum(axis=axis, keepdims=True))


def log_softmax_backward(y, dy, axis=-1):
    """dx_i = dy_i - exp(y_i) sum_j dy_j."""
    return dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)


def cross_entropy(logits, targets):
    """Per row: the loss -log softmax(logits)[target], and its gradient softmax(logits) - onehot(target).

    logits (N, V), targets (N) of classes; returns losses (N) and gradients (N, V).
    """
    rows = np.arange(len(targets))
    loss = -log_softmax(logits)[rows, targets]
    gradient = softmax(logits)
    gradient[rows, targets] -= 1
    return loss, gradient
