"""From tensors to launches: the axis becomes the last of a matrix, and its width chooses the kernel and the size of a program."""

import contextlib
import math

import torch
import triton

from . import kernels

# Wider rows do not stay in the registers of one program.
BLOCK_COLUMNS = 16384
# Shorter ones go several to a program.
ROWS_COLUMNS = 1024
TYPES = (torch.float32, torch.float16, torch.bfloat16)


def _require(condition, words):
    if not condition:
        raise ValueError(words)


def _check(name, tensor, shape=None):
    if not isinstance(tensor, torch.Tensor) or tensor.dtype not in TYPES:
        what = tensor.dtype if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise TypeError(f"{name} is {what}; a tensor of float32, float16 or bfloat16 is allowed")
    _require(shape is None or tensor.shape == shape,
             f"{name} has shape {tuple(tensor.shape)}; {tuple(shape or ())} is allowed")
    # Without a GPU only Triton's interpreter runs kernels: the environment decides when they are defined.
    _require(tensor.is_cuda or not isinstance(kernels.softmax_block, triton.runtime.JITFunction),
             f"{name} is on {tensor.device}; a GPU is needed, or TRITON_INTERPRET=1 set before libsoftmax.triton is imported")


def _matrix(tensor, axis):
    """The tensor as (rows, columns) with the axis as columns: a view where strides allow, else a copy."""
    last = tensor.movedim(axis, -1) if tensor.dim() else tensor.reshape(1)
    if not last.numel():
        return last.new_empty(0, 1)
    return last if last.dim() == 2 else last.reshape(-1, last.shape[-1])


def _empty_like_matrix(tensor, axis, dtype=None):
    """An output of the tensor's shape, and a matrix view of it: its memory is laid out with the axis last."""
    shape = list(tensor.shape) or [1]
    axis = axis % len(shape)
    order = [d for d in range(len(shape)) if d != axis] + [axis]
    out = torch.empty([shape[d] for d in order], dtype=dtype or tensor.dtype, device=tensor.device)
    result = out.permute([order.index(d) for d in range(len(shape))]).reshape(tensor.shape)
    return result, out.reshape(-1, out.shape[-1]) if out.numel() else out.new_empty(0, 1)


def _in_steps(matrices):
    """(sizes, step, vector): the width and the strides as the kernels of rows in registers take them, in steps of the largest power of two up to 8 that divides
    the width and every row's place, except multiples of 16, which Triton finds itself; and how many elements are loaded at once."""
    columns = matrices[0].shape[1]
    divisor = math.gcd(columns, *(m.stride(0) for m in matrices))
    step = 1 if divisor % 16 == 0 else divisor & -divisor
    sizes = [columns // step, *(part for m in matrices for part in (m.stride(0) // step, m.stride(1)))]
    return sizes, step, min(16 // matrices[0].element_size(), 8 if divisor % 16 == 0 else step)


def _rows_together(matrices, is_loss=False):
    """How rows of up to 1024 columns are launched: a thread takes 32 elements of its rows, so that a row has as few lanes as may be, PIECE columns at a time;
    16 elements of short rows of a loss, which has more to do for each row. Measured by bench/gpu/triton_rows.py --sweep. Returns the grid, the sizes and the
    constants."""
    rows, columns = matrices[0].shape
    half = matrices[0].element_size() == 2
    sizes, step, vector = _in_steps(matrices)
    padded = max(2, triton.next_power_of_2(columns))
    if is_loss:
        warps, each = (4, 16) if half and padded * vector <= 512 else (1, 16 if padded <= 32 else 32)
    else:
        warps, each = 4 if half and padded > 256 else 1, 32
    piece = min(padded, max(padded // each * vector, 16 if is_loss and padded <= 32 else 32))
    together = min(32 * warps * each // padded, 256)
    return (triton.cdiv(rows, together),), (rows, *sizes), {"ROWS": together, "PIECES": padded // piece, "PIECE": piece, "STEP": step, "num_warps": warps}


def _row_alone(matrices):
    """How wider rows that stay in registers are: a row a program, 8 elements a thread in each tile."""
    rows, columns = matrices[0].shape
    lanes = 1024 if columns <= 5120 else 2048
    sizes, step, _ = _in_steps(matrices)
    return (rows,), sizes, {"TILES": triton.cdiv(columns, lanes), "LANES": lanes, "STEP": step, "num_warps": lanes // 256}


def _launch(name, tensors, matrices, tail=()):
    """The kernel `name` of rows in registers: several short ones a program, or one."""
    short = matrices[0].shape[1] <= ROWS_COLUMNS
    grid, sizes, constants = _rows_together(matrices, name == "cross_entropy") if short else _row_alone(matrices)
    with _device_of(tensors[0]):
        getattr(kernels, f"{name}_{'rows' if short else 'block'}")[grid](*tensors, *sizes, *tail, **constants)


def _fills_whole_tiles(matrix):
    return not 0 < matrix.shape[1] % BLOCK_COLUMNS <= BLOCK_COLUMNS // 2


def _tiles(matrix):
    """How rows that do not are read: 16384 columns at a time, or 8192 where the last tile would be less than half full."""
    whole = _fills_whole_tiles(matrix)
    if matrix.element_size() == 4:
        return {"DEPTH": 4 if whole else 2, "LANES": 4096, "num_warps": 32}
    return {"DEPTH": 4, "LANES": 4096 if whole else 2048, "num_warps": 16 if whole else 8}


def _backward_tiles(matrix):
    """The same of a backward, which holds no pairs."""
    return {"LANES": 16384 if _fills_whole_tiles(matrix) else 8192, "num_warps": 32}


def _strides(*matrices):
    return [stride for matrix in matrices for stride in matrix.stride()]


def _device_of(tensor):
    return torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()


def softmax(x, axis=-1, *, dtype=None):
    """y_i = exp(x_i - m) / sum_j exp(x_j - m), m the row's maximum, along one axis.

    x      tensor of float32, float16 or bfloat16, any shape and strides
    dtype  the result's type; x's by default
    error  in units of the last place of float32, up to 1.2 |x_i - m| + 4; 16-bit results: about 0.51 of theirs plus that
    rows   NaN or +inf in a row, or a row of -inf alone: a NaN row; some -inf: exactly 0 there
    raises TypeError for other types, ValueError off the GPU without the interpreter
    """
    _check("x", x)
    matrix = _matrix(x, axis)
    y, out = _empty_like_matrix(x, axis, dtype)
    rows, columns = matrix.shape
    if rows and columns <= BLOCK_COLUMNS:
        _launch("softmax", (matrix, out), (matrix, out))
    elif rows:
        with _device_of(x):
            kernels.softmax_wide[(rows,)](matrix, out, columns, *_strides(matrix, out), **_tiles(matrix))
    return y


def softmax_backward(y, dy, axis=-1):
    """dx_i = y_i (dy_i - sum_j dy_j y_j), from the output y alone. y, dy: tensors of one shape and type; returns dx likewise."""
    _check("y", y)
    _check("dy", dy, y.shape)
    _y, _dy = _matrix(y, axis), _matrix(dy, axis)
    dx, out = _empty_like_matrix(y, axis)
    rows, columns = _y.shape
    if rows and columns <= BLOCK_COLUMNS:
        _launch("softmax_backward", (_y, _dy, out), (_y, _dy, out))
    elif rows:
        with _device_of(y):
            kernels.softmax_backward_wide[(rows,)](_y, _dy, out, columns, *_strides(_y, _dy, out), **_backward_tiles(_y))
    return dx


def cross_entropy(logits, targets, *, ignore_index=-100, reduction="mean", inplace=False):
    """The loss m + log s - z_t and its gradient softmax(z) - onehot(t), in one kernel.

    logits   (N, V) tensor of float32, float16 or bfloat16, any strides; overwritten by the gradient with inplace=True, and only then
    targets  (N) tensor of int64 or int32: classes, or ignore_index: loss 0 and gradient 0. Any other value makes the row's loss
             and gradient NaN (a kernel cannot raise)
    returns  (loss, gradient): float32, of shape (N) for reduction "none" and () for "sum" and "mean" (over the rows kept); the gradient of
             the loss (of its sum for "none"), of the logits' shape and type
    """
    _check("logits", logits)
    _require(logits.dim() == 2, f"logits have {logits.dim()} dimensions; 2 are allowed")
    _require(targets.shape == logits.shape[:1] and targets.dtype in (torch.int64, torch.int32),
             f"targets are {targets.dtype} of shape {tuple(targets.shape)}; int64 or int32 of ({logits.shape[0]},) is allowed")
    _require(reduction in ("none", "sum", "mean"), f"reduction is {reduction!r}; 'none', 'sum' and 'mean' are allowed")
    rows, columns = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    gradient = logits if inplace else torch.empty_like(logits)
    factor = 1 / (targets != ignore_index).sum(dtype=torch.float32) if reduction == "mean" else None
    tensors = logits, targets.contiguous(), losses, gradient, factor
    if rows and 0 < columns <= BLOCK_COLUMNS:
        _launch("cross_entropy", tensors, (logits, gradient), (ignore_index,))
    elif rows and columns:
        with _device_of(logits):
            kernels.cross_entropy_wide[(rows,)](*tensors, columns, *_strides(logits, gradient), ignore_index, **_tiles(logits))
    if reduction == "none":
        return losses, gradient
    total = losses.sum()
    return total if factor is None else total * factor, gradient


def multiply_unless_one(x, factor):
    """x *= factor in place, and no work where the factor, a tensor of one element on x's device, is 1. x is contiguous."""
    _check("x", x)
    _require(x.is_contiguous(), "x is not contiguous; a contiguous tensor is allowed")
    if x.numel():
        with _device_of(x):
            kernels.multiply_unless_one[(min(triton.cdiv(x.numel(), 4096), 1024),)](x, x.numel(), factor, BLOCK=4096, num_warps=8)
