"""PyTorch's autograd.Function with the backward written by hand: what `libsoftmax.torch` is at heart."""

import torch


class Softmax(torch.autograd.Function):
    """y_i = exp(x_i - m) / sum_j exp(x_j - m) along one dimension. Saves the output, not the input: y is all that backward needs."""

    @staticmethod
    def forward(ctx, x, dim):
        e = torch.exp(x - x.amax(dim, keepdim=True))
        y = e / e.sum(dim, keepdim=True)
        ctx.dim = dim
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        # Written in differentiable operations, so the backward has a backward.
        return y * (dy - (dy * y).sum(ctx.dim, keepdim=True)), None


class CrossEntropy(torch.autograd.Function):
    """The mean over rows of -log softmax(logits)[target]; the gradient is made in forward and is all that is kept."""

    @staticmethod
    def forward(ctx, logits, targets):
        rows = torch.arange(len(targets), device=logits.device)
        d = logits - logits.amax(1, keepdim=True)
        e = torch.exp(d)
        s = e.sum(1, keepdim=True)
        gradient = e / s
        gradient[rows, targets] -= 1
        ctx.save_for_backward(gradient / len(targets))
        return (torch.log(s[:, 0]) - d[rows, targets]).mean()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dloss):
        (gradient,) = ctx.saved_tensors
        return gradient * dloss, None


def softmax(x, dim=-1):
    """softmax of x along dim, differentiable twice."""
    return Softmax.apply(x, dim)


def cross_entropy(logits, targets):
    """The mean loss of logits (N, V) against classes targets (N), differentiable once."""
    return CrossEntropy.apply(logits, targets)
