"""The operators libsoftmax::softmax, log_softmax, logsumexp and the two backwards, with what PyTorch wants to know of each:
the kernel, the shape of its result, its derivative, its batching rule and its type under autocast.

The derivatives, with S = sum_j dy_j y_j and, one order further, g the gradient of dx:
    softmax        dx = y (dy - S)            d/d dy: y (g - sum_j g_j y_j)      d/d y: g (dy - S) - dy sum_j g_j y_j
    log_softmax    dx = dy - e^y sum_j dy_j   d/d dy: g - sum_j g_j e^y_j        d/d y: -g e^y sum_j dy_j
    logsumexp      dx = softmax(x) dl
"""

import torch

import libsoftmax

library = torch.library.Library("libsoftmax", "DEF")

# z = softcap tanh(x / softcap), then scale z + bias; 0 is no softcap.
OPTIONS = ("float scale=1., float softcap=0., Tensor? bias=None, Tensor? mask=None, Tensor? valid_lengths=None, "
           "bool causal=False, int causal_offset=0, bool empty_zero=False, ScalarType? dtype=None")
HALVES = (torch.float16, torch.bfloat16)

library.define(f"softmax(Tensor x, int dim, {OPTIONS}) -> Tensor")
library.define(f"log_softmax(Tensor x, int dim, {OPTIONS}) -> Tensor")
library.define(f"logsumexp(Tensor x, int dim, {OPTIONS}) -> Tensor")
library.define("softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor")
library.define("log_softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor")
operators = torch.ops.libsoftmax


def _keywords(scale=1.0, softcap=0.0, bias=None, mask=None, valid_lengths=None, causal=False, causal_offset=0,
              empty_zero=False, dtype=None):
    """The operator's options as the keywords of `libsoftmax.softmax`."""
    return {"scale": scale, "softcap": softcap, "bias": bias, "mask": mask, "valid_lengths": valid_lengths, "causal": causal,
            "causal_offset": causal_offset, "empty_rows": "zero" if empty_zero else "nan"}


def _result_dtype(x, options):
    """The last option, where it was given."""
    return options[8] if len(options) > 8 and options[8] is not None else x.dtype


def _same_shape(x, dim, *options):
    return torch.empty_like(x, dtype=_result_dtype(x, options))


def _without_dim(x, dim, *options):
    shape = list(x.shape)
    del shape[dim]
    return x.new_empty(shape, dtype=_result_dtype(x, options))


def _backward_shape(dy, y, dim):
    return torch.empty_like(y)


def _kernel(compute, result_of):
    """The operator as a call of the library that writes a new tensor."""

    def run(x, dim, *options):
        result = result_of(x, dim, *options)
        if options:
            compute(x, axis=dim, out=result, **_keywords(*options))
        else:
            compute(x, axis=dim, out=result)
        return result

    return run


def _backward_kernel(compute):
    def run(dy, y, dim):
        dx = torch.empty_like(y)
        compute(y, dy, axis=dim, out=dx)
        return dx

    return run


def implement(name, kernel, fake):
    for device in ("CPU", "CUDA"):
        library.impl(name, kernel, device)
    torch.library.register_fake(f"libsoftmax::{name}", fake, lib=library)


for _name, _shape in (("softmax", _same_shape), ("log_softmax", _same_shape), ("logsumexp", _without_dim)):
    implement(_name, _kernel(getattr(libsoftmax, _name), _shape), _shape)
for _name in ("softmax_backward", "log_softmax_backward"):
    implement(_name, _backward_kernel(getattr(libsoftmax, _name)), _backward_shape)


# ---- Derivatives ----------------------------------------------------------------------------------------------------

rules = {}  # operator: (setup, backward, batching)


class Transformed(torch.autograd.Function):
    """An operator under torch.func's transforms, for which PyTorch wants a Function where the operator's own registration is not looked at."""

    @staticmethod
    def forward(*arguments):
        return arguments[-1](*arguments[:-1])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.operator = inputs[-1]
        rules[ctx.operator][0](ctx, inputs[:-1], output)

    @staticmethod
    def backward(ctx, *gradients):
        return *rules[ctx.operator][1](ctx, *gradients), None

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return rules[arguments[-1]][2](info, in_dims[:-1], *arguments[:-1])


def call(operator, *arguments):
    """operator(*arguments), under torch.func's transforms too."""
    if torch._C._are_functorch_transforms_active() and not torch.compiler.is_compiling():
        defaults = [a.default_value for a in operator._schema.arguments[len(arguments):]]
        return Transformed.apply(*arguments, *defaults, operator)
    return operator(*arguments)


def _save_output(ctx, inputs, output):
    x, dim, scale, softcap, bias = inputs[:5]
    ctx.dim, ctx.scale, ctx.softcap, ctx.dtype = dim, scale, softcap, x.dtype
    ctx.bias_like = None if bias is None else (bias.shape, bias.dtype)
    ctx.options = inputs[5:10]
    # The output is all that is needed; softcap's slope alone needs the input.
    ctx.save_for_backward(output, x if softcap else None)


def _gradients_of_scores(ctx, dz, x):
    """(dx, dbias) from dz, the gradient of scale z + bias."""
    dbias = None
    if ctx.bias_like is not None and ctx.needs_input_grad[4]:
        shape, dtype = ctx.bias_like
        dbias = dz.sum_to_size(shape).to(dtype)
    dx = dz if ctx.scale == 1 else dz * ctx.scale
    if ctx.softcap:
        dx = dx * (1 - torch.tanh(x.to(dx.dtype) / ctx.softcap) ** 2)
    return dx.to(ctx.dtype), dbias


def _derivative(backward_operator):
    def backward(ctx, dy):
        y, x = ctx.saved_tensors
        dx, dbias = _gradients_of_scores(ctx, call(backward_operator, dy, y, ctx.dim), x)
        return dx, None, None, None, dbias, None, None, None, None, None, None

    return backward


def _softmax_backward_gradients(ctx, g):
    dy, y = ctx.saved_tensors
    if ctx.needs_input_grad[1]:
        total, pull = (dy * y).sum(ctx.dim, keepdim=True), (g * y).sum(ctx.dim, keepdim=True)
        for_y = g * (dy - total) - dy * pull
    return call(operators.softmax_backward.default, g, y, ctx.dim), for_y if ctx.needs_input_grad[1] else None, None


def _log_softmax_backward_gradients(ctx, g):
    dy, y = ctx.saved_tensors
    p = torch.exp(y)
    for_y = -g * p * dy.sum(ctx.dim, keepdim=True) if ctx.needs_input_grad[1] else None
    return g - (g * p).sum(ctx.dim, keepdim=True), for_y, None


def _save_backward(ctx, inputs, output):
    ctx.dim = inputs[2]
    ctx.save_for_backward(inputs[0], inputs[1])


def _save_input(ctx, inputs, output):
    _save_output(ctx, inputs, None)
    ctx.save_for_backward(inputs[0], *inputs[4:7])


def _logsumexp_gradients(ctx, dl):
    x, bias, mask, valid_lengths = ctx.saved_tensors
    causal, causal_offset = ctx.options[2:4]
    # A row in which nothing counts has the gradient 0.
    dtype = torch.float32 if x.dtype in HALVES and dl.dtype == torch.float32 else None
    p = call(operators.softmax.default, x, ctx.dim, ctx.scale, ctx.softcap, bias, mask, valid_lengths, causal, causal_offset, True, dtype)
    dx, dbias = _gradients_of_scores(ctx, p * dl.unsqueeze(ctx.dim), x)
    return dx, None, None, None, dbias, None, None, None, None, None, None


# ---- vmap: the new dimension comes first, and the operator runs once -------------------------------------------------

def batch_first(tensor, batch_dim, rank, size=None):
    """The tensor with its batch dimension first and as many others as the operand of `rank` has, so that it broadcasts; without a
    batch dimension as it is, or expanded to `size`."""
    if tensor is None:
        return None
    if batch_dim is None:
        return tensor if size is None else tensor.expand(size, *tensor.shape)
    tensor = tensor.movedim(batch_dim, 0)
    return tensor[(slice(None), *[None] * (rank + 1 - tensor.dim()))]


def _batched_forward(operator):
    def rule(info, in_dims, x, dim, *options):
        rank = x.dim() - (in_dims[0] is not None)
        x = batch_first(x, in_dims[0], rank, info.batch_size)
        options = list(options)
        for place, lost in ((2, 0), (3, 0), (4, 1)):  # bias, mask, valid_lengths: the last has no axis
            if place < len(options):
                options[place] = batch_first(options[place], in_dims[2 + place], rank - lost)
        return call(operator, x, dim if dim < 0 else dim + 1, *options), 0

    return rule


def _batched_backward(operator):
    def rule(info, in_dims, dy, y, dim):
        rank = y.dim() - (in_dims[1] is not None)
        dy, y = (batch_first(t, d, rank, info.batch_size) for t, d in ((dy, in_dims[0]), (y, in_dims[1])))
        return call(operator, dy, y, dim if dim < 0 else dim + 1), 0

    return rule


def register(name, setup, backward, batching):
    operator = getattr(operators, name).default
    rules[operator] = setup, backward, batching
    torch.library.register_autograd(f"libsoftmax::{name}", backward, setup_context=setup, lib=library)
    torch.library.register_vmap(f"libsoftmax::{name}", batching, lib=library)


for _name in ("softmax", "log_softmax"):
    _operator, _backward_operator = (getattr(operators, n).default for n in (_name, f"{_name}_backward"))
    register(_name, _save_output, _derivative(_backward_operator), _batched_forward(_operator))
register("logsumexp", _save_input, _logsumexp_gradients, _batched_forward(operators.logsumexp.default))
register("softmax_backward", _save_backward, _softmax_backward_gradients, _batched_backward(operators.softmax_backward.default))
register("log_softmax_backward", _save_backward, _log_softmax_backward_gradients,
         _batched_backward(operators.log_softmax_backward.default))


# ---- autocast: as torch.softmax, float32 on CUDA and the input's type on the CPU; the widening is the kernel's, not a copy --------------

def _autocast(operator):
    def run(x, dim, *options):
        if x.dtype in HALVES:
            given = len(options) > 8 and options[8] is not None
            options = options if given else (*(options[:8] + (1.0, 0.0, None, None, None, False, 0, False)[len(options):8]), torch.float32)
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)):
            return operator(x, dim, *options)

    return run


for _name in ("softmax", "log_softmax", "logsumexp"):
    library.impl(_name, _autocast(getattr(operators, _name)), "AutocastCUDA")
