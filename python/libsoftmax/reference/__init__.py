"""The ways to compute a softmax, for study: each a page that can be read from top to bottom.

naive               the definition as it is written; overflows from exp(89) on
stable              the maximum subtracted first: what NumPy users write, with its backwards and the loss
online              one pass: the pair (m, s) of maximum and sum, its merge, and tiles of a row
autograd_function   PyTorch's autograd.Function with the backward written by hand (needs PyTorch: import it by name)

They are not fast, and less accurate than `libsoftmax.softmax`: docs/tutorial.md measures by how much, and why.
"""

from . import naive, online, stable

__all__ = ["naive", "online", "stable"]
