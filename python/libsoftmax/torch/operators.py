"""The operators libsoftmax::softmax, log_softmax, logsumexp and the two backwards, with what PyTorch wants to know of each:
the kernel, the shape of its result, its derivative, its batching rule and its type under autocast.

The derivatives, with S = sum_j dy_j y_j and, one order further, g the gradient of dx:
    softmax        dx = y (dy - S)            d/d dy: y (g - sum_j g_j y_j)      d/d y: g (dy - S) - dy sum_j g_j y_j
    log_softmax    dx = dy - e^y sum_j dy_j   d/d dy: g - sum_j g_j e^y_j        d/d y: -g e^y sum_j dy_j
    logsumexp      dx = softmax(x) dl
"""

import torch
from torch.autograd import forward_ad

import libsoftmax

library = torch.library.Library("libsoftmax", "DEF")

# z = softcap tanh(x / softcap), then scale z + bias; 0 is no softcap. An overload of its own and no defaults: PyTorch takes 10 us to fill them in.
OPTIONS = ("float scale, float softcap, Tensor? bias, Tensor? mask, Tensor? valid_lengths, bool causal, int causal_offset, "
           "bool empty_zero, ScalarType? dtype")
NO_OPTIONS = (1.0, 0.0, None, None, None, False, 0, False, None)
FORWARDS = ("softmax", "log_softmax", "logsumexp")
HALVES = (torch.float16, torch.bfloat16)

for _name in FORWARDS:
    library.define(f"{_name}(Tensor x, int dim) -> Tensor")
    library.define(f"{_name}.options(Tensor x, int dim, {OPTIONS}) -> Tensor")
library.define("softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor")
library.define("log_softmax_backward(Tensor dy, Tensor y, int dim) -> Tensor")
operators = torch.ops.libsoftmax


def _keywords(scale, softcap, bias, mask, valid_lengths, causal, causal_offset, empty_zero, dtype):
    """The operator's options as the keywords of `libsoftmax.softmax`."""
    return {"scale": scale, "softcap": softcap, "bias": bias, "mask": mask, "valid_lengths": valid_lengths, "causal": causal,
            "causal_offset": causal_offset, "empty_rows": "zero" if empty_zero else "nan", "dtype": dtype}


def _result_dtype(x, options):
    return options[8] if options and options[8] is not None else x.dtype


def _same_shape(x, dim, *options):
    return torch.empty_like(x, dtype=_result_dtype(x, options))


def _without_dim(x, dim, *options):
    shape = list(x.shape)
    del shape[dim]
    return x.new_empty(shape, dtype=_result_dtype(x, options))


def _backward_shape(dy, y, dim):
    return torch.empty_like(y)


def is_plain(x):
    """Whether results of the library's own making have the layout of empty_like. Large ones come from its cache of memory, where
    PyTorch's would be fresh pages, which take longer than the computation."""
    return x.is_cpu and x.is_contiguous()


def _kernel(compute, result_of):
    """The operator as a call of the library that makes a new tensor."""

    def run(x, dim, *options):
        keywords = _keywords(*options) if options else {}
        if is_plain(x):
            return compute(x, axis=dim, **keywords)
        result = result_of(x, dim, *options)
        compute(x, axis=dim, out=result, **{**keywords, "dtype": None})
        return result

    return run


def _backward_kernel(compute):
    def run(dy, y, dim):
        if is_plain(y):
            return compute(y, dy, axis=dim)
        dx = torch.empty_like(y)
        compute(y, dy, axis=dim, out=dx)
        return dx

    return run


def implement(name, kernel, fake):
    for device in ("CPU", "CUDA"):
        library.impl(name, kernel, device)
    torch.library.register_fake(f"libsoftmax::{name}", fake, lib=library)


for _name in FORWARDS:
    _shape = _without_dim if _name == "logsumexp" else _same_shape
    for _overload in (_name, f"{_name}.options"):
        implement(_overload, _kernel(getattr(libsoftmax, _name), _shape), _shape)
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
        return Transformed.apply(*arguments, operator)
    return operator(*arguments)


def _save_output(ctx, inputs, output):
    x, ctx.dim, *options = inputs
    ctx.scale, ctx.softcap, bias, *ctx.options = options or NO_OPTIONS
    ctx.dtype, ctx.no_more = x.dtype, (None,) * len(options)
    ctx.bias_like = None if bias is None else (bias.shape, bias.dtype)
    # The output is all that is needed; softcap's slope alone needs the input.
    ctx.save_for_backward(output, x if ctx.softcap else None)


def _gradients_of_scores(ctx, dz, x):
    """The gradients of the operator's arguments from dz, that of scale z + bias."""
    dbias = None
    if ctx.bias_like is not None and ctx.needs_input_grad[4]:
        shape, dtype = ctx.bias_like
        dbias = dz.sum_to_size(shape).to(dtype)
    dx = dz if ctx.scale == 1 else dz * ctx.scale
    if ctx.softcap:
        dx = dx * (1 - torch.tanh(x.to(dx.dtype) / ctx.softcap) ** 2)
    gradients = [dx.to(ctx.dtype), None, *ctx.no_more]
    if dbias is not None:
        gradients[4] = dbias
    return tuple(gradients)


def _derivative(backward_operator):
    def backward(ctx, dy):
        y, x = ctx.saved_tensors
        return _gradients_of_scores(ctx, call(backward_operator, dy, y, ctx.dim), x)

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
    ctx.save_for_backward(inputs[0], *(inputs[4:7] or (None,) * 3))


def _logsumexp_gradients(ctx, dl):
    x, bias, mask, valid_lengths = ctx.saved_tensors
    _, _, causal, causal_offset, *_ = ctx.options
    # A row in which nothing counts has the gradient 0.
    dtype = torch.float32 if x.dtype in HALVES and dl.dtype == torch.float32 else None
    p = call(operators.softmax.options, x, ctx.dim, ctx.scale, ctx.softcap, bias, mask, valid_lengths, causal, causal_offset, True, dtype)
    return _gradients_of_scores(ctx, p * dl.unsqueeze(ctx.dim), x)


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
            if options:
                options[place] = batch_first(options[place], in_dims[2 + place], rank - lost)
        return call(operator, x, dim if dim < 0 else dim + 1, *options), 0

    return rule


def _batched_backward(operator):
    def rule(info, in_dims, dy, y, dim):
        rank = y.dim() - (in_dims[1] is not None)
        dy, y = (batch_first(t, d, rank, info.batch_size) for t, d in ((dy, in_dims[0]), (y, in_dims[1])))
        return call(operator, dy, y, dim if dim < 0 else dim + 1), 0

    return rule


def _refuse_tangents(operator, arguments):
    """Below autograd's kernels a tangent would be lost without a word."""
    for tensor in arguments:
        if isinstance(tensor, torch.Tensor) and forward_ad.unpack_dual(tensor).tangent is not None:
            raise NotImplementedError(f"{operator.name()} has no forward mode; reverse mode (grad, jacrev) is allowed")


def _recorded(operator, setup, backward):
    """The operator's kernel for autograd, as torch.library.register_autograd makes it, but for what our operators do not have: defaults, lists of tensors,
    keywords. A call so takes 5 us less."""
    below, after = torch._C._AutoDispatchBelowAutograd, torch._C._after_autograd_keyset

    class Recorded(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *arguments):
            *arguments, keys = arguments
            with below():
                result = operator.redispatch(keys & after, *arguments)
                setup(ctx, arguments, result)
                return result

        @staticmethod
        def backward(ctx, *gradients):
            return *backward(ctx, *gradients), None

    def run(keys, *arguments):
        if forward_ad._current_level >= 0:
            _refuse_tangents(operator, arguments)
        if torch._C.is_grad_enabled() and torch._C._any_requires_grad(*arguments):
            return Recorded.apply(*arguments, keys)
        with below():
            return operator.redispatch(keys & after, *arguments)

    return run


def register(operator, setup, backward, batching):
    rules[operator] = setup, backward, batching
    library.impl(operator, _recorded(operator, setup, backward), "Autograd", with_keyset=True)
    torch.library.register_vmap(operator, batching, lib=library)


for _name in ("softmax", "log_softmax"):
    _packet, _backward_operator = getattr(operators, _name), getattr(operators, f"{_name}_backward").default
    for _operator in (_packet.default, _packet.options):
        register(_operator, _save_output, _derivative(_backward_operator), _batched_forward(_operator))
for _operator in (operators.logsumexp.default, operators.logsumexp.options):
    register(_operator, _save_input, _logsumexp_gradients, _batched_forward(_operator))
for _operator, _gradients in ((operators.softmax_backward.default, _softmax_backward_gradients),
                              (operators.log_softmax_backward.default, _log_softmax_backward_gradients)):
    register(_operator, _save_backward, _gradients, _batched_backward(_operator))


# ---- autocast: as torch.softmax, float32 on CUDA and the input's type on the CPU; the widening is the kernel's, not a copy --------------

def _autocast(packet):
    def run(x, dim, *options):
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)):
            options = options or NO_OPTIONS
            if x.dtype not in HALVES or options[8] is not None:
                return packet.options(x, dim, *options)
            return packet.options(x, dim, *options[:8], torch.float32)

    return run


for _name in FORWARDS:
    for _overload in (_name, f"{_name}.options"):
        library.impl(_overload, _autocast(getattr(operators, _name)), "AutocastCUDA")
