"""One pass over a row, by the pair (m, s): m the largest score so far, s = sum_j exp(x_j - m).

Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. When m grows, s is multiplied by exp(m - m'). That
product is rounded, so other tiles and other merge orders may give other last bits; `libsoftmax.State` holds the sum exactly and gives the same.
"""

import numpy as np


def empty(rows, dtype=np.float32):
    """The pair of `rows` rows of which nothing has been seen: (-inf, 0)."""
    return np.full(rows, -np.inf, dtype), np.zeros(rows, dtype)


def merge(a, b):
    """The pair of two parts of the same rows: the larger maximum, and both sums rescaled to it."""
    m = np.maximum(a[0], b[0])
    with np.errstate(invalid="ignore"):
        # An empty part has m = -inf; exp(-inf - -inf) would be NaN where it must count nothing.
        s = sum(np.where(part[1] == 0, m.dtype.type(0), part[1] * np.exp(part[0] - m)) for part in (a, b))
    return m, s


def update(pair, tile):
    """The pair after the rows' next columns, tile (rows, columns)."""
    m = tile.max(axis=1, initial=-np.inf).astype(tile.dtype)
    with np.errstate(invalid="ignore"):
        terms = np.where(tile == -np.inf, tile.dtype.type(0), np.exp(tile - m[:, None]))
    return merge(pair, (m, terms.sum(axis=1)))


def logsumexp(pair):
    """m + log s."""
    with np.errstate(divide="ignore"):
        return pair[0] + np.log(pair[1])


def softmax(x, tile=128):
    """softmax of the rows of x (rows, columns): one pass in tiles for (m, s), one to write exp(x - m) / s."""
    pair = empty(len(x), x.dtype)
    for start in range(0, x.shape[1], tile):
        pair = update(pair, x[:, start : start + tile])
    m, s = pair
    with np.errstate(invalid="ignore"):
        return np.exp(x - m[:, None]) / s[:, None]
