"""The kernels: Triton programs over the rows of a matrix, in any float type, with float32 arithmetic.

Softmax in the form with the maximum subtracted (libsoftmax.reference.stable); wide rows by the online pair (m, s)
(libsoftmax.reference.online; Milakov and Gimelshein 2018). Their arithmetic is Triton's exp, not the library's own: docs/tutorial.md has both errors.
Every matrix has a row stride and a column stride, in elements (row strides and widths of the block kernels: in steps of STEP). Offsets are 64 bits wide.
"""

import triton
import triton.language as tl

MINUS_INFINITY = tl.constexpr(float("-inf"))


@triton.jit
def places(rows, steps, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    """(row, column, inside) of a program's ROWS rows of steps x STEP columns. STEP is a constant so that the compiler knows how wide loads may be:
    STEP elements. STEP = COLUMNS: the rows are that wide and one after the other, and need no mask on columns."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = tl.broadcast_to(row < rows, ROWS, COLUMNS) if STEP == COLUMNS else (row < rows) & (column < steps * STEP)
    return row, column, inside


@triton.jit
def offsets(row, column, row_steps, column_stride, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    return row * COLUMNS + column if STEP == COLUMNS else row * (row_steps * STEP) + column * column_stride


@triton.jit
def softmax_block(x, y, rows, steps, x_row, x_column, y_row, y_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
                  STEP: tl.constexpr):
    """ROWS whole rows per program, in registers: one read, one write. COLUMNS is the next power of two; what pads it is -inf."""
    row, column, inside = places(rows, steps, ROWS, COLUMNS, STEP)
    scores = tl.load(x + offsets(row, column, x_row, x_column, COLUMNS, STEP), mask=inside, other=MINUS_INFINITY).to(tl.float32)
    terms = tl.exp(scores - tl.max(scores, 1)[:, None])
    result = terms * (1.0 / tl.sum(terms, 1))[:, None]
    tl.store(y + offsets(row, column, y_row, y_column, COLUMNS, STEP), result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def online_pair(x, columns, x_column, DEPTH: tl.constexpr, LANES: tl.constexpr):
    """(m, s) of one row, read in tiles of DEPTH x LANES columns. Every lane keeps its own pair, so that a tile costs no exchange
    between threads and only one rescaling for DEPTH terms; the lanes' pairs are merged at the end. The tiles are read again soon, from
    the last on: the cache is asked to keep them."""
    place = tl.arange(0, DEPTH)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    m = tl.full([LANES], MINUS_INFINITY, tl.float32)
    s = tl.zeros([LANES], tl.float32)
    for start in range(0, columns, DEPTH * LANES):
        column = start + place
        scores = tl.load(x + column.to(tl.int64) * x_column, mask=column < columns, other=MINUS_INFINITY, eviction_policy="evict_last").to(tl.float32)
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
    """One row per program, wider than a block: read for (m, s), read again from the end and written, past the cache."""
    row = tl.program_id(0).to(tl.int64)
    x += row * x_row
    y += row * y_row
    m, s = online_pair(x, columns, x_column, DEPTH, LANES)
    inverse = 1.0 / s
    tiles = tl.cdiv(columns, DEPTH * LANES)
    for tile in range(0, tiles):
        column = (tiles - 1 - tile) * (DEPTH * LANES) + tl.arange(0, DEPTH * LANES)
        inside = column < columns
        scores = tl.load(x + column.to(tl.int64) * x_column, mask=inside, other=MINUS_INFINITY, eviction_policy="evict_first").to(tl.float32)
        result = tl.exp(scores - m) * inverse
        tl.store(y + column.to(tl.int64) * y_column, result.to(y.dtype.element_ty), mask=inside, cache_modifier=".cs")


@triton.jit
def softmax_backward_block(y, dy, dx, rows, steps, y_row, y_column, dy_row, dy_column, dx_row, dx_column,
                           ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    """dx_i = y_i (dy_i - sum_j dy_j y_j), ROWS whole rows per program."""
    row, column, inside = places(rows, steps, ROWS, COLUMNS, STEP)
    p = tl.load(y + offsets(row, column, y_row, y_column, COLUMNS, STEP), mask=inside, other=0.0).to(tl.float32)
    g = tl.load(dy + offsets(row, column, dy_row, dy_column, COLUMNS, STEP), mask=inside, other=0.0).to(tl.float32)
    result = p * (g - tl.sum(g * p, 1)[:, None])
    tl.store(dx + offsets(row, column, dx_row, dx_column, COLUMNS, STEP), result.to(dx.dtype.element_ty), mask=inside)


@triton.jit
def softmax_backward_wide(y, dy, dx, columns, y_row, y_column, dy_row, dy_column, dx_row, dx_column, LANES: tl.constexpr):
    """The same, one wide row per program: read for the sum, read again from the end and written, past the cache."""
    row = tl.program_id(0).to(tl.int64)
    y += row * y_row
    dy += row * dy_row
    dx += row * dx_row
    sums = tl.zeros([LANES], tl.float32)
    tiles = tl.cdiv(columns, LANES)
    for tile in range(0, tiles):
        column = (tile * LANES + tl.arange(0, LANES)).to(tl.int64)
        p = tl.load(y + column * y_column, mask=column < columns, other=0.0, eviction_policy="evict_last").to(tl.float32)
        sums += p * tl.load(dy + column * dy_column, mask=column < columns, other=0.0, eviction_policy="evict_last").to(tl.float32)
    total = tl.sum(sums, 0)
    for tile in range(0, tiles):
        column = ((tiles - 1 - tile) * LANES + tl.arange(0, LANES)).to(tl.int64)
        inside = column < columns
        p = tl.load(y + column * y_column, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        g = tl.load(dy + column * dy_column, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        tl.store(dx + column * dx_column, (p * (g - total)).to(dx.dtype.element_ty), mask=inside, cache_modifier=".cs")


@triton.jit
def cross_entropy_block(logits, targets, losses, gradient, factor, rows, steps, logits_row, logits_column, gradient_row,
                        gradient_column, ignore_index, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    """ROWS whole rows per program: loss = m + log s - z_t, gradient = factor (softmax(z) - onehot(t)), one read and one write. The gradient may be
    the logits. A target that is neither a class nor ignore_index gives NaN."""
    each = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    target = tl.load(targets + each, mask=each < rows, other=ignore_index).to(tl.int64)
    kept = target != ignore_index
    valid = (target >= 0) & (target < steps * STEP)
    row, column, inside = places(rows, steps, ROWS, COLUMNS, STEP)
    scores = tl.load(logits + offsets(row, column, logits_row, logits_column, COLUMNS, STEP), mask=inside,
                     other=MINUS_INFINITY).to(tl.float32)
    z_t = tl.load(logits + offsets(each, target, logits_row, logits_column, COLUMNS, STEP), mask=kept & valid, other=0.0).to(tl.float32)
    m = tl.max(scores, 1)
    terms = tl.exp(scores - m[:, None])
    s = tl.sum(terms, 1)
    tl.store(losses + each, tl.where(kept, tl.where(valid, (m - z_t) + tl.log(s), float("nan")), 0.0), mask=each < rows)
    # NaN for a bad target, and 0 for an ignored row whatever it holds.
    scale = tl.where(valid, tl.load(factor), float("nan"))
    at = tl.where(kept & valid, target, -1).to(tl.int32)
    slope = terms * (scale / s)[:, None]
    slope = tl.where(column == at[:, None], slope - scale[:, None], slope)
    slope = tl.where(kept[:, None], slope, 0.0)
    # In place, z_t is another thread's to overwrite: it has been read by then.
    tl.debug_barrier()
    tl.store(gradient + offsets(row, column, gradient_row, gradient_column, COLUMNS, STEP), slope.to(gradient.dtype.element_ty), mask=inside)


@triton.jit
def cross_entropy_wide(logits, targets, losses, gradient, factor, columns, logits_row, logits_column, gradient_row,
                       gradient_column, ignore_index, DEPTH: tl.constexpr, LANES: tl.constexpr):
    """The same, one wide row per program: read for (m, s), read again and written. A tile is read before it is written, and z_t before all."""
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
    # An ignored row is not read again: its scores count as -inf, whose terms are 0.
    scale = tl.where(kept, tl.where(valid, tl.load(factor), float("nan")), 0.0)
    seen = tl.where(kept, columns, 0)
    shift = tl.where(kept, m, 0.0)
    inverse = tl.where(kept, 1.0 / s, 0.0)
    at = tl.where(kept & valid, target, -1).to(tl.int32)
    tl.debug_barrier()
    tiles = tl.cdiv(columns, DEPTH * LANES)
    for tile in range(0, tiles):
        column = (tiles - 1 - tile) * (DEPTH * LANES) + tl.arange(0, DEPTH * LANES)
        inside = column < columns
        scores = tl.load(logits + column.to(tl.int64) * logits_column, mask=column < seen, other=MINUS_INFINITY,
                         eviction_policy="evict_first").to(tl.float32)
        slope = (tl.exp(scores - shift) * inverse - tl.where(column == at, 1.0, 0.0)) * scale
        tl.store(gradient + column.to(tl.int64) * gradient_column, slope.to(gradient.dtype.element_ty), mask=inside, cache_modifier=".cs")


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
