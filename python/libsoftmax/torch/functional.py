"""The functions that users call: torch.nn.functional's signatures, and the library's options by keyword."""

import torch
import torch.nn.functional as F

from . import loss_operator  # noqa: F401  (defines its operator)
from .inplace_loss import InplaceCrossEntropy
from .operators import HALVES, call, operators

EMPTY_ROWS = {"nan": False, "zero": True}


def _empty_zero(name, empty_rows):
    if empty_rows not in EMPTY_ROWS:
        raise ValueError(f"{name}: empty_rows is {empty_rows!r}; 'nan' and 'zero' are allowed")
    return EMPTY_ROWS[empty_rows]


def _prepared(x, dtype):
    """As PyTorch: cast to dtype first. 16-bit scores with float32 results need no cast, which would be a copy."""
    if dtype is None or dtype == x.dtype or (dtype == torch.float32 and x.dtype in HALVES):
        return x, dtype
    return x.to(dtype), None


def _call(operator, name, x, dim, dtype, scale, softcap, bias, mask, valid_lengths, causal, causal_offset, empty_rows):
    x, dtype = _prepared(x, dtype)
    return call(operator, x, dim, float(scale), float(softcap), bias, mask, valid_lengths, causal, causal_offset,
                    _empty_zero(name, empty_rows), dtype)


def _along(packet, name, input, dim, stacklevel, dtype, options):
    if dim is None:
        dim = F._get_softmax_dim(name, input.dim(), stacklevel + 1)
    if dtype is None and not options:
        return call(packet.default, input, dim) if input.dim() else call(packet.default, input.reshape(1), dim).reshape(())
    given = {**DEFAULTS, **options}
    if len(given) != len(DEFAULTS):
        raise TypeError(f"{name}: {sorted(set(options) - set(DEFAULTS))[0]} is no option; {', '.join(DEFAULTS)} are")
    x = input if input.dim() else input.reshape(1)
    return _call(packet.options, name, x, dim, dtype, **given).reshape(input.shape)


DEFAULTS = {"scale": 1.0, "softcap": 0.0, "bias": None, "mask": None, "valid_lengths": None, "causal": False, "causal_offset": 0,
            "empty_rows": "nan"}


def softmax(input, dim=None, _stacklevel=3, dtype=None, **options):
    """y_i = exp(z_i) / sum_j exp(z_j) along dim, z = scale softcap(input) + bias: torch.nn.functional.softmax, to the last bits.

    input    tensor of float32, float64, float16 or bfloat16 (others with dtype), any shape and strides; differentiable, as bias is
    dim      the dimension; None chooses as PyTorch does, with its warning
    dtype    the result's type: input is cast to it first. float32 of 16-bit inputs costs no copy
    options  scale (1 / temperature), softcap (z = softcap tanh(input / softcap)), bias (added; broadcasts to input; -inf masks), mask (bool or uint8; broadcasts;
             False takes no part), valid_lengths (int32 or int64; columns at or beyond take none), causal and causal_offset (dim is the last, column
             j is seen by query i, along dimension -2, if j <= i + causal_offset), empty_rows ("nan" or "zero": what rows give in which nothing counts)
    saves    the output for backward, and not the input (but with softcap)
    error    at most 2.5 ULP in float32 and float64, 0.51 ULP in 16 bits, whatever the scores; docs/numerics.md
    rows     NaN or +inf: NaN; -inf: exactly 0
    raises   ValueError and TypeError, with the argument, its value and what is allowed
    """
    return _along(operators.softmax, "softmax", input, dim, _stacklevel, dtype, options)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None, **options):
    """y_i = z_i - log sum_j exp(z_j): torch.nn.functional.log_softmax. As `softmax`; error at most 2 ULP, relative, also where the
    probability is next to 1. Masked columns are -inf."""
    return _along(operators.log_softmax, "log_softmax", input, dim, _stacklevel, dtype, options)


def logsumexp(input, dim, keepdim=False, *, dtype=None, **options):
    """l = log sum_j exp(z_j): torch.logsumexp, over one dimension or a tuple of them, with `softmax`'s options but empty_rows (over one).

    The result has the input's type, or dtype: take float32 of 16-bit inputs where l matters. Backward needs the input, and saves it.
    error  at most 1 ULP of the largest of |max z|, |l - max z|, |l|. A row of -inf alone gives -inf, and the gradient 0.
    """
    x = input if input.dim() else input.reshape(1)
    dims = [d % x.dim() for d in (dim if isinstance(dim, (tuple, list)) else (dim,))] or list(range(x.dim()))
    if len(dims) == 1:
        l = _along_one(x, dims[0], dtype, options)
    else:
        if options:
            raise ValueError(f"logsumexp: dim is {tuple(dim)}; one dimension is allowed with {', '.join(options)}")
        l = _along_one(x.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims)), -1, dtype, options)
    if keepdim and input.dim():
        for d in sorted(dims):
            l = l.unsqueeze(d)
    return l


def _along_one(x, dim, dtype, options):
    if dtype is None and not options:
        return call(operators.logsumexp.default, x, dim)
    unknown = set(options) - set(DEFAULTS)
    if unknown:
        raise TypeError(f"logsumexp: {sorted(unknown)[0]} is no option; {', '.join(DEFAULTS)} are")
    return _call(operators.logsumexp.options, "logsumexp", x, dim, dtype, **{**DEFAULTS, **options})


def _wants_gradient(tensor):
    """Whether forward must make the gradient. Under torch.func a tensor does not say what is asked of it further out."""
    if torch.compiler.is_compiling():
        return torch.is_grad_enabled() and tensor.requires_grad
    return torch.is_grad_enabled() and (tensor.requires_grad or torch._C._are_functorch_transforms_active())


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0, *, z_loss=0.0, softcap=0.0, mask=None, valid_lengths=None, inplace=False):
    """-log softmax(input)[target]: torch.nn.functional.cross_entropy, which it replaces by one import line.

        loss = w_t (1 - e) (l - z_t) + (e / V) sum_j w_j (l - z_j) + z_loss l^2,  z = softcap(input), l = logsumexp(z), e = label_smoothing

    input    (V), (N, V) or (N, V, d1, ...) of float32, float64, float16 or bfloat16, any strides; differentiable
    target   (), (N) or (N, d1, ...) of int64 or int32: classes; or floats of input's shape: probabilities, differentiable
    weight   (V) class weights. ignore_index: rows with this class have loss 0 and gradient 0
    returns  float64 for float64 input, else float32: () for reduction "mean" (over the weights of the rows kept) and "sum", target's shape for "none"
    options  z_loss, softcap; mask and valid_lengths as in `softmax`; inplace: the gradient overwrites input, which must be the result of an
             operation; no second buffer, no double backward. Only asked for, never otherwise; within torch.compile it has no effect
    memory   forward makes the gradient and keeps that one buffer of input's size, not input (but with softcap); backward scales it where it lies. A
             gradient of 16 bits is rounded once where the upstream gradient is a power of two, as it is without a loss scaler's odd factors
    error    loss at most 2 ULP relative, gradient 3 ULP, also next to certainty; docs/numerics.md
    raises   ValueError for a target that is neither a class nor ignore_index, naming row and value; TypeError and ValueError as `softmax`
    """
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"cross_entropy: reduction is {reduction!r}; 'none', 'sum' and 'mean' are allowed")
    if weight is not None and weight.requires_grad:
        raise ValueError("cross_entropy: weight requires a gradient; constant class weights are allowed")
    single = input.dim() == 1
    logits, classes = (input.unsqueeze(0), target.unsqueeze(0)) if single else (input, target)
    if single and valid_lengths is not None:
        valid_lengths = valid_lengths.reshape(1)
    options = (weight, ignore_index, reduction, float(label_smoothing), float(z_loss), float(softcap), mask, valid_lengths)
    if inplace and not torch.compiler.is_compiling():
        loss, _ = InplaceCrossEntropy.apply(logits, classes, *options)
    else:
        loss = call(operators.cross_entropy.default, logits, classes, *options, _wants_gradient(logits),
                    classes.is_floating_point() and _wants_gradient(classes))[0]
    return loss.reshape(()) if single and reduction == "none" else loss
