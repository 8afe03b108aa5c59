"""torch.nn's modules over `libsoftmax.torch`: the same arguments, the same state dictionaries."""

import torch

from . import functional


class Softmax(torch.nn.Module):
    """softmax along dim, as torch.nn.Softmax; more options by keyword: those of `libsoftmax.torch.softmax` that are no tensors."""

    def __init__(self, dim=None, *, scale=1.0, softcap=0.0, causal=False, empty_rows="nan"):
        super().__init__()
        self.dim = dim
        self.options = {"scale": scale, "softcap": softcap, "causal": causal, "empty_rows": empty_rows}

    def forward(self, input):
        return functional.softmax(input, self.dim, _stacklevel=5, **self.options)

    def extra_repr(self):
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """log_softmax along dim, as torch.nn.LogSoftmax."""

    def forward(self, input):
        return functional.log_softmax(input, self.dim, _stacklevel=5, **self.options)


class CrossEntropyLoss(torch.nn.CrossEntropyLoss):
    """The loss of `libsoftmax.torch.cross_entropy`, as torch.nn.CrossEntropyLoss; z_loss, softcap and inplace beside its arguments."""

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0,
                 *, z_loss=0.0, softcap=0.0, inplace=False):
        super().__init__(weight, size_average, ignore_index, reduce, reduction, label_smoothing)
        self.z_loss, self.softcap, self.inplace = z_loss, softcap, inplace

    def forward(self, input, target):
        return functional.cross_entropy(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
                                        label_smoothing=self.label_smoothing, z_loss=self.z_loss, softcap=self.softcap,
                                        inplace=self.inplace)
