"""The kernels: Triton programs over the rows of a matrix, in any float type, with float32 arithmetic.

Softmax in the form with the maximum subtracted (libsoftmax.reference.stable); wide rows by the online pair (m, s)
(libsoftmax.reference.online; Milakov and Gimelshein 2018). Their arithmetic is Triton's exp, not the library's own: docs/tutorial.md has both errors.
Every matrix has a row stride and a column stride, in elements. Offsets are 64 bits wide.
"""

import triton
import triton.language as tl

MINUS_INFINITY = tl.constexpr(float("-inf"))


@triton.jit
def softmax_block(x, y, rows, columns, x_row, x_column, y_row, y_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """ROWS whole rows per program, in registers: one read, one write. COLUMNS is the next power of two; what pads it is -inf."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    scores = tl.load(x + row * x_row + column * x_column, mask=inside, other=MINUS_INFINITY).to(tl.float32)
    terms = tl.exp(scores - tl.max(scores, 1)[:, None])
    result = terms / tl.sum(terms, 1)[:, None]
    tl.store(y + row * y_row + column * y_column, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def online_pair(x, columns, x_column, DEPTH: tl.constexpr, LANES: tl.constexpr):
    """(m, s) of one row, read in tiles of DEPTH x LANES columns. Every lane keeps its own pair, so that a tile costs no exchange
    between threads and only one rescaling for DEPTH terms; the lanes' pairs are merged at the end."""
    place = tl.arange(0, DEPTH)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    m = tl.full([LANES], MINUS_INFINITY, tl.float32)
    s = tl.zeros([LANES], tl.float32)
    for start in range(0, columns, DEPTH * LANES):
        column = start + place
        scores = tl.load(x + column.to(tl.int64) * x_column, mask=column < columns, other=MINUS_INFINITY).to(tl.float32)
        larger = tl.maximum(m, tl.max(scores, 0))
        # A lane that has seen only -inf: its terms are 0, not exp(-inf + inf).
        shift = tl.where(larger == MINUS_INFINITY, 0.0, larger)
        s = s * tl.exp(m - shift) + tl.sum(tl.exp(scores - shift[None, :]), 0)
        m = larger
    top = tl.max(m, 0)
    shift = tl.where(top == MINUS_INFINITY, 0.0, top)
    return top, tl.sum(s * tl.exp(m - shift), 0)


@triton.jit
def softmax_wide(x, y, columns, x_row, x_column, y_row, y_column, DEPTH: tl.constexpr, LANES: tl.constexpr):
    """One row per program, wider than a block: read for (m, s), read again and written."""
    row = tl.program_id(0).to(tl.int64)
    x += row * x_row
    y += row * y_row
    m, s = online_pair(x, columns, x_column, DEPTH, LANES)
    inverse = 1.0 / s
    for start in range(0, columns, DEPTH * LANES):
        column = start + tl.arange(0, DEPTH * LANES)
        inside = column < columns
        scores = tl.load(x + column.to(tl.int64) * x_column, mask=inside, other=MINUS_INFINITY).to(tl.float32)
        result = tl.exp(scores - m) * inverse
        tl.store(y + column.to(tl.int64) * y_column, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def softmax_backward_block(y, dy, dx, rows, columns, y_row, y_column, dy_row, dy_column, dx_row, dx_column,
                           ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """dx_i = y_i (dy_i - sum_j dy_j y_j), ROWS whole rows per program."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < columns)
    p = tl.load(y + row * y_row + column * y_column, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(dy + row * dy_row + column * dy_column, mask=inside, other=0.0).to(tl.float32)
    result = p * (g - tl.sum(g * p, 1)[:, None])
    tl.store(dx + row * dx_row + column * dx_column, result.to(dx.dtype.element_ty), mask=inside)


@triton.jit
def softmax_backward_wide(y, dy, dx, columns, y_row, y_column, dy_row, dy_column, dx_row, dx_column, LANES: tl.constexpr):
    """The same, one wide row per program: read for the sum, read again and written."""
    row = tl.program_id(0).to(tl.int64)
    y += row * y_row
    dy += row * dy_row
    dx += row * dx_row
    sums = tl.zeros([LANES], tl.float32)
    for start in range(0, columns, LANES):
        column = (start + tl.arange(0, LANES)).to(tl.int64)
        p = tl.load(y + column * y_column, mask=column < columns, other=0.0).to(tl.float32)
        sums += p * tl.load(dy + column * dy_column, mask=column < columns, other=0.0).to(tl.float32)
    total = tl.sum(sums, 0)
    for start in range(0, columns, LANES):
        column = (start + tl.arange(0, LANES)).to(tl.int64)
        inside = column < columns
        p = tl.load(y + column * y_column, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(dy + column * dy_column, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx + column * dx_column, (p * (g - total)).to(dx.dtype.element_ty), mask=inside)


@triton.jit
def cross_entropy_rows(logits, targets, losses, gradient, factor, columns, logits_row, logits_column, gradient_row,
                       gradient_column, ignore_index, DEPTH: tl.constexpr, LANES: tl.constexpr):
    """One row per program: loss = m + log s - z_t, gradient = factor (softmax(z) - onehot(t)). The gradient may be the logits:
    a tile is read before it is written, and z_t before all. A target that is neither a class nor ignore_index gives NaN."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * logits_row
    gradient += row * gradient_row
    target = tl.load(targets + row).to(tl.int64)
    kept = target != ignore_index
    valid = (target >= 0) & (target < columns)
    z_t = tl.load(logits + target * logits_column, mask=valid & kept, other=0.0).to(tl.float32)
    m, s = online_pair(logits, columns, logits_column, DEPTH, LANES)
    loss = tl.where(valid, (m - z_t) + tl.log(s), float("nan"))
    tl.store(losses + row, tl.where(kept, loss, 0.0))
    # 0 for an ignored row and NaN for a bad target; `where`, as 0 times NaN would be NaN.
    scale = tl.where(valid, tl.load(factor), float("nan"))
    inverse = 1.0 / s
    tl.debug_barrier()
    for start in range(0, columns, DEPTH * LANES):
        column = start + tl.arange(0, DEPTH * LANES)
        inside = column < columns
        scores = tl.load(logits + column.to(tl.int64) * logits_column, mask=inside, other=MINUS_INFINITY).to(tl.float32)
        p = tl.exp(scores - m) * inverse
        slope = tl.where(kept, (p - tl.where(column == target, 1.0, 0.0)) * scale, 0.0)
        tl.store(gradient + column.to(tl.int64) * gradient_column, slope.to(gradient.dtype.element_ty), mask=inside)


@triton.jit
def multiply_unless_one(x, count, factor, BLOCK: tl.constexpr):
    """x *= factor, an element on the device; nothing is read or written where it is 1, and the host need not know."""
    scale = tl.load(factor).to(tl.float32)
    if scale != 1.0:
        block = tl.program_id(0).to(tl.int64)
        while block * BLOCK < count:
            place = block * BLOCK + tl.arange(0, BLOCK)
            value = tl.load(x + place, mask=place < count, other=0.0).to(tl.float32) * scale
            tl.store(x + place, value.to(x.dtype.element_ty), mask=place < count)
            block += tl.num_programs(0)
