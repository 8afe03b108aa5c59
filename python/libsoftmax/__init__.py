"""The softmax family: accurate to the last bits, and the same bits everywhere.

    >>> import numpy as np, libsoftmax
    >>> libsoftmax.softmax(np.array([1000.0, 1001.0, 1002.0]))
    array([0.09003057, 0.24472847, 0.66524096])

softmax, log_softmax, logsumexp, their backwards, cross_entropy with its gradient, and State, over NumPy arrays and all arrays that have
`__dlpack__` (PyTorch, JAX, CuPy). `libsoftmax.torch` has the functions that autograd knows.
"""
from libsoftmax._core import (
    BLOCK_COLUMNS,
    State,
    __version__,
    cache_info,
    cross_entropy,
    instruction_sets,
    log_softmax,
    log_softmax_backward,
    logsumexp,
    set_cache_limit,
    softmax,
    softmax_backward,
)

__all__ = [
    "BLOCK_COLUMNS",
    "State",
    "__version__",
    "cache_info",
    "cross_entropy",
    "instruction_sets",
    "log_softmax",
    "log_softmax_backward",
    "logsumexp",
    "set_cache_limit",
    "softmax",
    "softmax_backward",
]
