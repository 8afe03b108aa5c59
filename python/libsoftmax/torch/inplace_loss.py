"""Cross-entropy whose gradient is written over the logits: no second buffer of their size, at the price of the logits and of double backward."""

import torch

from .loss_operator import compute, scaled


class InplaceCrossEntropy(torch.autograd.Function):
    """Returns the loss and the logits, which PyTorch is told hold something else now: a graph that still needs them says so in its
    backward, instead of being wrong."""

    @staticmethod
    def forward(ctx, logits, target, *options):
        loss, _ = compute(logits, target, *options, gradient=logits)
        ctx.mark_dirty(logits)
        ctx.set_materialize_grads(False)
        ctx.reduction = options[2]
        ctx.save_for_backward(logits)
        return loss, logits

    @staticmethod
    def backward(ctx, dloss, dlogits):
        if dlogits is not None:
            raise RuntimeError("cross_entropy: inplace is True, so the logits hold the gradient; what was computed from them "
                               "afterwards cannot be differentiated")
        if torch.is_grad_enabled():
            raise RuntimeError("cross_entropy: inplace is True; double backward is allowed with inplace=False, which keeps the logits")
        if dloss is None:
            return (None,) * 10
        (gradient,) = ctx.saved_tensors
        return scaled(gradient.detach(), dloss, ctx.reduction), *(None,) * 9
