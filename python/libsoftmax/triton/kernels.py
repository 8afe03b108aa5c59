"""The kernels: Triton programs over the rows of a matrix, in any float type, with float32 arithmetic.

Softmax in the form with the maximum subtracted (libsoftmax.reference.stable); wide rows by the online pair (m, s)
(libsoftmax.reference.online; Milakov and Gimelshein 2018). Their arithmetic is Triton's exp2, not the library's own: docs/tutorial.md has both errors.
Every matrix has a row stride and a column stride, in elements (row strides and widths of all but the wide kernels: in steps of STEP, a constant, so that the
compiler knows how wide loads may be: STEP elements). Offsets are 64 bits wide.

Three forms by width. `_rows`: short rows, several a program. Each is cut into PIECES pieces of PIECE columns, of which a few lanes beside each other take one
after another: few lanes a row need few exchanges, and so few instructions, which is what limits short rows of 16 bits. `_block`: one row a program, in
TILES tiles of LANES columns, so that no more than the last tile is padded. `_wide`: one row a program, read twice.
"""

import triton
import triton.language as tl

MINUS_INFINITY = tl.constexpr(float("-inf"))
LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def power(x):
    """e^x in one multiplication and one instruction; below 2^-126 it is 0, where exp would take three more."""
    return tl.exp2(x * LOG2_E)


@triton.jit
def upstream_of(factor):
    """What multiplies the gradient: one element on the device, or None for 1."""
    if factor is None:
        return 1.0
    else:
        return tl.load(factor)


# ---- Short rows -----------------------------------------------------------------------------------------------------


@triton.jit
def places(rows, steps, ROWS: tl.constexpr, PIECES: tl.constexpr, PIECE: tl.constexpr, STEP: tl.constexpr):
    """(row, column, inside) of a program's ROWS rows of steps x STEP columns, as ROWS x PIECES x PIECE."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None, None]
    column = tl.arange(0, PIECES)[None, :, None] * PIECE + tl.arange(0, PIECE)[None, None, :]
    return row, column, (row < rows) & (column < steps * STEP)


@triton.jit
def softmax_rows(x, y, rows, steps, x_row, x_column, y_row, y_column, ROWS: tl.constexpr, PIECES: tl.constexpr, PIECE: tl.constexpr, STEP: tl.constexpr):
    """ROWS whole rows per program, in registers: one read, one write. What pads them is -inf."""
    row, column, inside = places(rows, steps, ROWS, PIECES, PIECE, STEP)
    scores = tl.load(x + row * (x_row * STEP) + column * x_column, mask=inside, other=MINUS_INFINITY).to(tl.float32)
    m = tl.max(tl.max(scores, 1), 1)
    terms = power(scores - m[:, None, None])
    inverse = 1.0 / tl.sum(tl.sum(terms, 1), 1)
    tl.store(y + row * (y_row * STEP) + column * y_column, (terms * inverse[:, None, None]).to(y.dtype.element_ty), mask=inside)


@triton.jit
def softmax_backward_rows(y, dy, dx, rows, steps, y_row, y_column, dy_row, dy_column, dx_row, dx_column, ROWS: tl.constexpr, PIECES: tl.constexpr,
                          PIECE: tl.constexpr, STEP: tl.constexpr):
    """dx_i = y_i (dy_i - sum_j dy_j y_j), ROWS whole rows per program."""
    row, column, inside = places(rows, steps, ROWS, PIECES, PIECE, STEP)
    p = tl.load(y + row * (y_row * STEP) + column * y_column, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(dy + row * (dy_row * STEP) + column * dy_column, mask=inside, other=0.0).to(tl.float32)
    total = tl.sum(tl.sum(g * p, 1), 1)
    tl.store(dx + row * (dx_row * STEP) + column * dx_column, (p * (g - total[:, None, None])).to(dx.dtype.element_ty), mask=inside)


@triton.jit
def cross_entropy_rows(logits, targets, losses, gradient, factor, rows, steps, logits_row, logits_column, gradient_row, gradient_column, ignore_index,
                       ROWS: tl.constexpr, PIECES: tl.constexpr, PIECE: tl.constexpr, STEP: tl.constexpr):
    """ROWS whole rows per program: loss = m + log s - z_t, gradient = factor (softmax(z) - onehot(t)), one read and one write. The gradient may be
    the logits. A target that is neither a class nor ignore_index gives NaN; an ignored row is not read: its scores count as -inf beside m = 0, whose
    terms are 0. The target's gradient is written once more, over p, instead of looked for in every column."""
    each = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    target = tl.load(targets + each, mask=each < rows, other=ignore_index).to(tl.int64)
    kept = target != ignore_index
    valid = kept & (target >= 0) & (target < steps * STEP)
    z_t = tl.load(logits + each * (logits_row * STEP) + target * logits_column, mask=valid, other=0.0).to(tl.float32)
    row, column, inside = places(rows, steps, ROWS, PIECES, PIECE, STEP)
    scores = tl.load(logits + row * (logits_row * STEP) + column * logits_column, mask=inside & kept[:, None, None], other=MINUS_INFINITY).to(tl.float32)
    m = tl.where(kept, tl.max(tl.max(scores, 1), 1), 0.0)
    terms = power(scores - m[:, None, None])
    s = tl.sum(tl.sum(terms, 1), 1)
    tl.store(losses + each, tl.where(kept, tl.where(valid, (m - z_t) + tl.log(s), float("nan")), 0.0), mask=each < rows)
    scale = tl.where(valid, upstream_of(factor), float("nan"))
    inverse = tl.where(kept, scale / s, 0.0)
    # In place, z_t is another thread's to overwrite: it has been read by then. So is the target's gradient.
    tl.debug_barrier()
    tl.store(gradient + row * (gradient_row * STEP) + column * gradient_column, (terms * inverse[:, None, None]).to(gradient.dtype.element_ty), mask=inside)
    tl.debug_barrier()
    tl.store(gradient + each * (gradient_row * STEP) + target * gradient_column, (power(z_t - m) * inverse - scale).to(gradient.dtype.element_ty), mask=valid)


# ---- One row in registers -------------------------------------------------------------------------------------------


@triton.jit
def load_tile(row, k, steps, stride, other, TILES: tl.constexpr, LANES: tl.constexpr, STEP: tl.constexpr):
    """Tile k of a row of steps x STEP columns, of which only the last is ragged."""
    column = k * LANES + tl.arange(0, LANES)
    if k == TILES - 1:
        return tl.load(row + column.to(tl.int64) * stride, mask=column < steps * STEP, other=other).to(tl.float32)
    else:
        return tl.load(row + column.to(tl.int64) * stride).to(tl.float32)


@triton.jit
def store_tile(row, k, values, steps, stride, TILES: tl.constexpr, LANES: tl.constexpr, STEP: tl.constexpr):
    column = k * LANES + tl.arange(0, LANES)
    if k == TILES - 1:
        tl.store(row + column.to(tl.int64) * stride, values.to(row.dtype.element_ty), mask=column < steps * STEP)
    else:
        tl.store(row + column.to(tl.int64) * stride, values.to(row.dtype.element_ty))


@triton.jit
def terms_of(row, steps, stride, TILES: tl.constexpr, LANES: tl.constexpr, STEP: tl.constexpr):
    """(terms, m, s) of a row: its tiles of e^(x - m), in registers, the maximum and the sum. Tiles are first taken together lane by lane."""
    tiles = ()
    m = tl.full([LANES], MINUS_INFINITY, tl.float32)
    for k in tl.static_range(TILES):
        tiles = tiles + (load_tile(row, k, steps, stride, MINUS_INFINITY, TILES, LANES, STEP),)
        m = tl.maximum(m, tiles[k])
    top = tl.max(m, 0)
    terms = ()
    s = tl.zeros([LANES], tl.float32)
    for k in tl.static_range(TILES):
        terms = terms + (power(tiles[k] - top),)
        s += terms[k]
    return terms, top, tl.sum(s, 0)


@triton.jit
def softmax_block(x, y, steps, x_row, x_column, y_row, y_column, TILES: tl.constexpr, LANES: tl.constexpr, STEP: tl.constexpr):
    """One row per program, in registers: one read, one write."""
    row = tl.program_id(0).to(tl.int64)
    terms, m, s = terms_of(x + row * (x_row * STEP), steps, x_column, TILES, LANES, STEP)
    inverse = 1.0 / s
    for k in tl.static_range(TILES):
        store_tile(y + row * (y_row * STEP), k, terms[k] * inverse, steps, y_column, TILES, LANES, STEP)


@triton.jit
def softmax_backward_block(y, dy, dx, steps, y_row, y_column, dy_row, dy_column, dx_row, dx_column, TILES: tl.constexpr, LANES: tl.constexpr,
                           STEP: tl.constexpr):
    """dx_i = y_i (dy_i - sum_j dy_j y_j), one row per program."""
    row = tl.program_id(0).to(tl.int64)
    p, g = (), ()
    s = tl.zeros([LANES], tl.float32)
    for k in tl.static_range(TILES):
        p = p + (load_tile(y + row * (y_row * STEP), k, steps, y_column, 0.0, TILES, LANES, STEP),)
        g = g + (load_tile(dy + row * (dy_row * STEP), k, steps, dy_column, 0.0, TILES, LANES, STEP),)
        s += g[k] * p[k]
    total = tl.sum(s, 0)
    for k in tl.static_range(TILES):
        store_tile(dx + row * (dx_row * STEP), k, p[k] * (g[k] - total), steps, dx_column, TILES, LANES, STEP)


@triton.jit
def cross_entropy_block(logits, targets, losses, gradient, factor, steps, logits_row, logits_column, gradient_row, gradient_column, ignore_index,
                        TILES: tl.constexpr, LANES: tl.constexpr, STEP: tl.constexpr):
    """cross_entropy_rows for one row per program. An ignored row is read, and its zeros are written."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * (logits_row * STEP)
    gradient += row * (gradient_row * STEP)
    target = tl.load(targets + row).to(tl.int64)
    kept = target != ignore_index
    valid = kept & (target >= 0) & (target < steps * STEP)
    z_t = tl.load(logits + target * logits_column, mask=valid, other=0.0).to(tl.float32)
    terms, m, s = terms_of(logits, steps, logits_column, TILES, LANES, STEP)
    tl.store(losses + row, tl.where(kept, tl.where(valid, (m - z_t) + tl.log(s), float("nan")), 0.0))
    scale = tl.where(valid, upstream_of(factor), float("nan"))
    inverse = scale / s
    tl.debug_barrier()
    if kept:
        for k in tl.static_range(TILES):
            store_tile(gradient, k, terms[k] * inverse, steps, gradient_column, TILES, LANES, STEP)
    else:
        for k in tl.static_range(TILES):
            store_tile(gradient, k, tl.zeros([LANES], tl.float32), steps, gradient_column, TILES, LANES, STEP)
    tl.debug_barrier()
    tl.store(gradient + target * gradient_column, (power(z_t - m) * inverse - scale).to(gradient.dtype.element_ty), mask=valid)


# ---- Wide rows ------------------------------------------------------------------------------------------------------


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
        s = s * power(m - shift) + tl.sum(power(scores - shift[None, :]), 0)
        m = larger
    top = tl.max(m, 0)
    shift = tl.where(top == MINUS_INFINITY, 0.0, top)
    return top, tl.sum(s * power(m - shift), 0)


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
        result = power(scores - m) * inverse
        tl.store(y + column.to(tl.int64) * y_column, result.to(y.dtype.element_ty), mask=inside, cache_modifier=".cs")


@triton.jit
def softmax_backward_wide(y, dy, dx, columns, y_row, y_column, dy_row, dy_column, dx_row, dx_column, LANES: tl.constexpr):
    """dx_i = y_i (dy_i - sum_j dy_j y_j) of one wide row per program: read for the sum, read again from the end and written, past the cache."""
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
def cross_entropy_wide(logits, targets, losses, gradient, factor, columns, logits_row, logits_column, gradient_row,
                       gradient_column, ignore_index, DEPTH: tl.constexpr, LANES: tl.constexpr):
    """cross_entropy_rows for one wide row per program: read for (m, s), read again and written. A tile is read before it is written, and z_t before all."""
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
    scale = tl.where(kept, tl.where(valid, upstream_of(factor), float("nan")), 0.0)
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
        slope = (power(scores - shift) * inverse - tl.where(column == at, 1.0, 0.0)) * scale
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
