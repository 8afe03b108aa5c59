"""The operator libsoftmax::cross_entropy: loss and gradient in one call, and every further derivative from the gradient alone.

With p the softmax of the scores z, t_j the weight of column j (hard target y: w_y (1 - e) [j = y] + (e / V) w_j; probabilities q:
((1 - e) q_j + e / V) w_j), G the factor of the row's first terms and G' that of z_loss (1, or what the mean divides by):
    gradient      D = p A - G t            A = G sum_j t_j + 2 z_loss l G',  l the row's logsumexp
    so            p = (D + G t) / A        no logits are needed, and none are kept
    its gradient  v -> A p (v - sum_j p_j v_j) + 2 z_loss G' p sum_j p_j v_j
    of targets    d loss / d q_j = G (1 - e) w_j (l - z_j),  d D_j / d q_k = G (1 - e) w_k (p_j - [j = k])
A softcap c maps x to z = c tanh(x / c), whose slope the gradient cannot give back where it is 0: with it the logits are kept too.
"""

from dataclasses import dataclass

import torch

import libsoftmax

from .operators import call, implement, is_plain, library, operators, register


library.define(
    "cross_entropy(Tensor logits, Tensor target, Tensor? weight, int ignore_index, str reduction, float label_smoothing, "
    "float z_loss, float softcap, Tensor? mask, Tensor? valid_lengths, bool with_gradient, bool with_target_gradient) "
    "-> (Tensor loss, Tensor gradient, Tensor target_gradient, Tensor logsumexp)")


def loss_dtype(logits):
    return torch.float64 if logits.dtype == torch.float64 else torch.float32


def _results(logits, target, weight, ignore_index, reduction, label_smoothing, z_loss, softcap, mask, valid_lengths, with_gradient,
             with_target_gradient):
    rows = (*logits.shape[:1], *logits.shape[2:])
    loss = logits.new_empty(rows if reduction == "none" else (), dtype=loss_dtype(logits))
    gradient = torch.empty_like(logits) if with_gradient else logits.new_empty(0)
    target_gradient = torch.empty_like(target) if with_target_gradient else logits.new_empty(0)
    # Only the derivatives want it.
    return loss, gradient, target_gradient, logits.new_empty(rows if with_gradient else 0, dtype=loss_dtype(logits))


def compute(logits, target, weight, ignore_index, reduction, label_smoothing, z_loss, softcap, mask, valid_lengths, **results):
    """The call of the library."""
    weight = None if weight is None else weight.to(loss_dtype(logits))
    return libsoftmax.cross_entropy(logits, target, axis=1, class_weights=weight, ignore_index=ignore_index, reduction=reduction,
                                    label_smoothing=label_smoothing, z_loss=z_loss, softcap=softcap, mask=mask,
                                    valid_lengths=valid_lengths, **results)


def _kernel(logits, target, *options):
    *options, with_gradient, with_target_gradient = options
    if not with_gradient and not with_target_gradient:
        loss = compute(logits, target, *options)
        return loss, logits.new_empty(0), logits.new_empty(0), loss.new_empty(0)
    if with_gradient and not with_target_gradient and is_plain(logits):
        loss, gradient, logsumexp = compute(logits, target, *options, gradient=True, row_logsumexp=True)
        return loss, gradient, logits.new_empty(0), logsumexp
    results = _results(logits, target, *options, with_gradient, with_target_gradient)
    loss, gradient, target_gradient, logsumexp = results
    compute(logits, target, *options, out=loss, gradient=gradient if with_gradient else None, row_logsumexp=logsumexp if with_gradient else None,
            targets_gradient=target_gradient if with_target_gradient else None)
    return results


implement("cross_entropy", _kernel, _results)


# ---- Derivatives ----------------------------------------------------------------------------------------------------

@dataclass
class Factors:
    """What the rows and columns of a loss weigh, in the shape of the logits or broadcast to it."""

    t: torch.Tensor          # G t_j
    total: torch.Tensor      # G sum_j t_j
    z: object                # 2 z_loss G'
    targets: object          # G (1 - e) w_j, of probability targets


def _factors(ctx, target, weight, mask, valid_lengths, dtype, shape):
    """Recomputed where a second derivative is asked for: nothing of it is kept."""
    columns, smoothing = shape[1], ctx.label_smoothing
    along = (1, columns, *[1] * (len(shape) - 2))
    w = torch.ones(along, dtype=dtype, device=target.device) if weight is None else weight.to(dtype).reshape(along)
    if target.is_floating_point():
        kept = torch.ones((), dtype=dtype, device=target.device)
        t = ((1 - smoothing) * target.to(dtype) + smoothing / columns) * w
        rows = weighed = shape.numel() // max(columns, 1)
    else:
        kept = (target != ctx.ignore_index).to(dtype).unsqueeze(1)
        place = torch.where(target == ctx.ignore_index, 0, target).long().unsqueeze(1)
        w_target = w.expand(shape).gather(1, place) * kept
        t = torch.zeros(shape, dtype=dtype, device=target.device).scatter(1, place, (1 - smoothing) * w_target)
        t = t + smoothing / columns * w * kept
        rows, weighed = kept.sum(), w_target.sum()
    if mask is not None:
        t = t * (mask != 0)
    if valid_lengths is not None:
        t = t * (torch.arange(columns, device=t.device).reshape(along) < valid_lengths.unsqueeze(1))
    g, g_z = (1 / weighed, 1 / rows) if ctx.reduction == "mean" else (1, 1)
    t = t * g
    return Factors(t, t.sum(1, keepdim=True), 2 * ctx.z_loss * g_z * kept, (1 - smoothing) * g * w)


def _second_derivatives(ctx, saved, v, u, dl):
    """(for the logits, for the probability targets) of v, u and dl, the gradients of D, of the targets' gradient and of l."""
    gradient, logsumexp, target, weight, mask, valid_lengths, x = saved
    dtype = loss_dtype(gradient)
    f = _factors(ctx, target, weight, mask, valid_lengths, dtype, gradient.shape)
    l = logsumexp.unsqueeze(1)
    a = f.total + f.z * l
    d, slope, bend = gradient.to(dtype), 1, None
    if ctx.softcap:
        # x is kept: p from it directly, and the chain rule through z = c tanh(x / c).
        tanh = torch.tanh(x.to(dtype) / ctx.softcap)
        slope = 1 - tanh**2
        p = torch.where((f.t == 0) & (gradient == 0), 0.0, torch.exp(ctx.softcap * tanh - l))
        bend = (p * a - f.t) * (-2 / ctx.softcap) * tanh * slope
    else:
        p = torch.where(a == 0, 0.0, (d + f.t) / torch.where(a == 0, 1.0, a))
    for_logits = for_targets = None
    if v is not None:
        inner = v.to(dtype) * slope
        pull = (p * inner).sum(1, keepdim=True)
        for_logits = a * p * (inner - pull) + f.z * p * pull
        if target.is_floating_point():
            for_targets = f.targets * (pull - inner)
    if u is not None:
        q = u.to(dtype) * f.targets
        add = p * q.sum(1, keepdim=True) - q
        for_logits = add if for_logits is None else for_logits + add
    if dl is not None:
        add = p * dl.unsqueeze(1)
        for_logits = add if for_logits is None else for_logits + add
    if for_logits is not None:
        for_logits = for_logits * slope
        if bend is not None and v is not None:
            for_logits = for_logits + bend * v.to(dtype)
        for_logits = for_logits.to(gradient.dtype)
    return for_logits, None if for_targets is None else for_targets.to(target.dtype)


def _ours_to_give(buffer):
    """Whether this backward is the last use of its buffer: nobody keeps the graph, differentiates through it or traces it."""
    return (type(buffer) is torch.Tensor and not torch.is_grad_enabled() and not torch.compiler.is_compiling()
            and not torch._C._are_functorch_transforms_active() and torch._C._current_graph_task_id() != -1
            and not torch._C._autograd._get_current_graph_task_keep_graph())


def scaled(buffer, upstream, reduction):
    """upstream times the gradient that forward made, in its own buffer where that may be."""
    factor = upstream.unsqueeze(1) if reduction == "none" else upstream
    if not _ours_to_give(buffer):
        return (buffer * factor.to(buffer.dtype if reduction != "none" else factor.dtype)).to(buffer.dtype)
    if reduction == "none":
        return buffer.mul_(factor)
    return multiply_in_place(buffer, factor)


def multiply_in_place(buffer, factor):
    """buffer *= factor, a scalar tensor that is nearly always 1; on a GPU the host does not wait to see it."""
    if buffer.is_cpu:
        return buffer if factor.item() == 1 else buffer.mul_(factor)
    if not buffer.is_cuda:  # meta: there is nothing to see
        return buffer.mul_(factor)
    try:
        from libsoftmax.triton import multiply_unless_one
    except ImportError:
        return buffer.mul_(factor)
    if buffer.dtype == torch.float64 or not buffer.is_contiguous():
        return buffer.mul_(factor)
    multiply_unless_one(buffer, factor)
    return buffer


def _setup(ctx, inputs, output):
    logits, target, weight, *options, mask, valid_lengths, ctx.made_gradient, ctx.made_target_gradient = inputs
    ctx.ignore_index, ctx.reduction, ctx.label_smoothing, ctx.z_loss, ctx.softcap = options
    _, gradient, target_gradient, logsumexp = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(gradient, target_gradient, logsumexp, target, weight, mask, valid_lengths, logits if ctx.softcap else None)


def _backward(ctx, dloss, v, u, dl):
    gradient, target_gradient, *others = ctx.saved_tensors
    for_logits = for_targets = None
    if dloss is not None and ctx.needs_input_grad[0] and not ctx.made_gradient:
        raise RuntimeError("libsoftmax::cross_entropy: with_gradient is False; True is needed for a backward")
    # Outputs that were not asked for are empty, and so would their gradients be.
    v, dl = (v, dl) if ctx.made_gradient else (None, None)
    u = u if ctx.made_target_gradient else None
    if dloss is not None and ctx.needs_input_grad[1]:
        for_targets = scaled(target_gradient, dloss, ctx.reduction)
    if v is not None or u is not None or dl is not None:
        for_logits, more = _second_derivatives(ctx, (gradient, *others), v, u, dl)
        if more is not None and ctx.needs_input_grad[1]:
            for_targets = more if for_targets is None else for_targets + more
        if dloss is not None:
            first = gradient * (dloss.unsqueeze(1) if ctx.reduction == "none" else dloss)
            for_logits = for_logits + first.to(gradient.dtype)
    elif dloss is not None and ctx.needs_input_grad[0]:
        for_logits = scaled(gradient, dloss, ctx.reduction)
    return (for_logits, for_targets, *[None] * 10)


def _batched(info, in_dims, *arguments):
    """One call for each: every one has its own reduction over its rows."""
    def part(i):
        return [t if d is None else t.select(d, i) for t, d in zip(arguments, in_dims)]

    parts = [call(operators.cross_entropy.default, *part(i)) for i in range(info.batch_size)]
    return tuple(torch.stack(results) for results in zip(*parts)), (0, 0, 0, 0)


register(operators.cross_entropy.default, _setup, _backward, _batched)
