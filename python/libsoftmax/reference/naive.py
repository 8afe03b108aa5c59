"""The definition, as it is written. exp(89) is beyond float32, so rows with a score of 89 give NaN."""

import numpy as np


def softmax(x, axis=-1):
    """y_i = exp(x_i) / sum_j exp(x_j).

    x: array of floats; returns an array of its shape and type. inf / inf is NaN where exp overflows; 0 / 0 where all underflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.exp(x)
        return e / e.sum(axis=axis, keepdims=True)


def logsumexp(x, axis=-1):
    """log sum_j exp(x_j): +inf where exp overflows, -inf where all terms underflow."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.log(np.exp(x).sum(axis=axis))
