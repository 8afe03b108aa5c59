"""libsoftmax for PyTorch: the functions of torch.nn.functional with the library's accuracy, as differentiable custom operators.

    from libsoftmax.torch import cross_entropy      # in place of torch.nn.functional.cross_entropy
    loss = cross_entropy(logits, targets)

Autograd to any order, torch.compile(fullgraph=True), torch.func (vmap over any dimension, grad), autocast, meta tensors, and any strides work.
Forward saves the output and not the input; cross_entropy makes the gradient in its forward and keeps that one buffer.
"""

try:
    import torch as _torch
except ImportError as error:
    raise ImportError("libsoftmax.torch needs PyTorch, which is not installed: pip install 'libsoftmax[torch]'") from error

from .functional import cross_entropy, log_softmax, logsumexp, softmax
from .modules import CrossEntropyLoss, LogSoftmax, Softmax

__all__ = ["CrossEntropyLoss", "LogSoftmax", "Softmax", "cross_entropy", "log_softmax", "logsumexp", "softmax"]
