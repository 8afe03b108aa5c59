"""libsoftmax.torch: torch.nn.functional's semantics, and every way in which PyTorch runs an operator."""

import warnings

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402

from libsoftmax import torch as ours  # noqa: E402

NAMES = ["softmax", "log_softmax"]
# PyTorch rounds 16 bits more often than once.
LOOSE = {torch.float16: {"rtol": 1e-2, "atol": 1e-2}, torch.bfloat16: {"rtol": 5e-2, "atol": 5e-2}}


def scores(*shape, dtype=torch.float64, grad=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_(grad)


def operators_of(options=None):
    """Every operation along a dimension, as functions of (x, dim)."""
    return [lambda x, dim, f=f: f(x, dim, **(options or {})) for f in (ours.softmax, ours.log_softmax, ours.logsumexp)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape,dim", [((3, 5), 1), ((3, 5), 0), ((2, 3, 4), 1), ((4,), -1), ((), 0), ((0, 3), 1), ((3, 0), 0)])
def test_as_torch(shape, dim, dtype):
    x, dy = scores(*shape, dtype=dtype, grad=True), scores(*shape, dtype=dtype, seed=1)
    for name in NAMES:
        y, theirs = getattr(ours, name)(x, dim), getattr(F, name)(x, dim)
        assert y.dtype == theirs.dtype == dtype and y.shape == shape
        torch.testing.assert_close(y, theirs, **LOOSE.get(dtype, {}))
        (dx,) = torch.autograd.grad(y, x, dy)
        torch.testing.assert_close(dx, torch.autograd.grad(theirs, x, dy)[0], **LOOSE.get(dtype, {}))
    for keepdim in (False, True):
        l, theirs = ours.logsumexp(x, dim, keepdim), torch.logsumexp(x, dim, keepdim)
        assert l.dtype == dtype and l.shape == theirs.shape
        torch.testing.assert_close(l, theirs)


def test_dtype_and_implicit_dim():
    x = scores(3, 5, dtype=torch.bfloat16, grad=True)
    for name in NAMES:
        for dtype in (torch.float32, torch.float64, torch.float16):
            y = getattr(ours, name)(x, 1, dtype=dtype)
            assert y.dtype == dtype
            torch.testing.assert_close(y, getattr(F, name)(x, 1, dtype=dtype), **LOOSE.get(dtype, {}))
            (dx,) = torch.autograd.grad(y.sum() + (y**2).sum(), x)
            assert dx.dtype == x.dtype
        for rank in (1, 2, 3, 4):
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                y = getattr(ours, name)(scores(*[2] * rank))
            assert "Implicit dimension choice" in str(heard[0].message) and heard[0].filename == __file__
            torch.testing.assert_close(y, getattr(F, name)(scores(*[2] * rank), 0 if rank in (1, 3) else 1))
    assert ours.softmax(torch.tensor([1, 2]), 0, dtype=torch.float32).dtype == torch.float32
    x = scores(2, 3, 4)
    torch.testing.assert_close(ours.logsumexp(x, (0, 2)), torch.logsumexp(x, (0, 2)))
    torch.testing.assert_close(ours.logsumexp(x, (2, 0), True), torch.logsumexp(x, (2, 0), True))
    assert ours.logsumexp(x, (0, 1, 2)).shape == ()


OPTIONS = {
    "plain": {},
    "scale": {"scale": 0.7},
    "softcap": {"softcap": 3.0, "scale": 1.3},
    "bias": {"bias": scores(3, 1, 5, seed=2)},
    "mask": {"mask": torch.tensor([1, 1, 0, 1, 1], dtype=torch.bool)},
    "lengths": {"valid_lengths": torch.tensor([[3, 5, 1, 2]]).expand(3, 4)},
    "causal": {"causal": True, "causal_offset": 1},
}


def formula(name, x, scale=1.0, softcap=0.0, bias=None, mask=None, valid_lengths=None, causal=False, causal_offset=0):
    z = (softcap * torch.tanh(x / softcap) if softcap else x) * scale + (0 if bias is None else bias)
    columns = torch.arange(x.shape[-1])
    seen = torch.ones(x.shape, dtype=torch.bool) if mask is None else mask.expand(x.shape)
    if valid_lengths is not None:
        seen = seen & (columns < valid_lengths[..., None])
    if causal:
        seen = seen & (columns <= torch.arange(x.shape[-2])[:, None] + causal_offset)
    return getattr(torch, name)(z.masked_fill(~seen, -torch.inf), -1)


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("name", [*NAMES, "logsumexp"])
def test_options(name, kind):
    options, x = OPTIONS[kind], scores(3, 4, 5, grad=True)
    call = lambda x: getattr(ours, name)(x, -1, **options)  # noqa: E731
    torch.testing.assert_close(call(x), formula(name, x, **options))
    finite = lambda x: call(x).masked_fill(call(x).detach().isinf(), 0)  # noqa: E731
    assert torch.autograd.gradcheck(finite, (x,)) and torch.autograd.gradgradcheck(finite, (x,))
    if kind == "bias":
        bias = options["bias"].clone().requires_grad_()
        both = lambda x, b: getattr(ours, name)(x, -1, bias=b, scale=0.5)  # noqa: E731
        assert torch.autograd.gradcheck(both, (x, bias)) and torch.autograd.gradgradcheck(both, (x, bias))


def test_empty_rows():
    x = torch.full((2, 3), -torch.inf, requires_grad=True)
    assert ours.softmax(x, 1).isnan().all()
    y = ours.softmax(x, 1, empty_rows="zero")
    assert not y.any()
    y.sum().backward()
    assert not x.grad.any()
    (dx,) = torch.autograd.grad(ours.logsumexp(x, 1).sum(), x)
    assert not dx.any()


def test_errors_are_words():
    x = scores(2, 3)
    with pytest.raises(ValueError, match="scale is inf; .*allowed"):
        ours.softmax(x, 1, scale=float("inf"))
    with pytest.raises(TypeError, match="sofcap is no option; scale, softcap"):
        ours.softmax(x, 1, sofcap=3)
    with pytest.raises(ValueError, match="empty_rows is 'one'; 'nan' and 'zero' are allowed"):
        ours.log_softmax(x, 1, empty_rows="one")
    with pytest.raises(TypeError):
        ours.softmax(torch.tensor([1, 2]), 0)
    with pytest.raises((ValueError, IndexError)):
        ours.softmax(x, 2)


def test_saves_the_output_alone():
    x = scores(4, 6, grad=True)
    for name in NAMES:
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
            y = getattr(ours, name)(x, 1)
        assert [t.data_ptr() for t in saved if t is not None] == [y.data_ptr()]


def test_operators_pass_opcheck():
    """Schema, fake kernels (static and dynamic shapes) and autograd registration, by PyTorch's own checker."""
    x, y = scores(3, 5, grad=True), F.softmax(scores(3, 5, seed=3), 1).requires_grad_()
    tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    for operator, arguments in (
        (torch.ops.libsoftmax.softmax.default, (x, 1)),
        (torch.ops.libsoftmax.softmax.options, (x, 1, 0.5, 0.0, None, None, None, True, 1, True, None)),
        (torch.ops.libsoftmax.log_softmax.default, (scores(3, 5, dtype=torch.bfloat16, grad=True).T, 0)),
        (torch.ops.libsoftmax.logsumexp.options, (x, -1, 2.0, 3.0, scores(5, seed=4, grad=True), None, None, False, 0, False, None)),
        (torch.ops.libsoftmax.softmax_backward.default, (scores(3, 5, seed=5, grad=True), y, 1)),
        (torch.ops.libsoftmax.log_softmax_backward.default, (x, F.log_softmax(scores(3, 5, seed=5), 1).requires_grad_(), 1)),
    ):
        torch.library.opcheck(operator, arguments, test_utils=tests)


def test_meta_and_strides():
    for operation in operators_of():
        x = scores(6, 8, 4)
        for view in (x[::2, 1::3], x.permute(2, 0, 1), x[:, :1].expand(6, 8, 4), x[..., 0]):
            for dim in range(view.dim()):
                there, meta = operation(view, dim), operation(view.to("meta"), dim)
                assert torch.equal(there, operation(view.contiguous(), dim))
                assert meta.device.type == "meta" and meta.shape == there.shape and meta.dtype == there.dtype
    assert ours.softmax(scores(3, 4, dtype=torch.float16).to("meta"), 1, dtype=torch.float32).dtype == torch.float32


def test_vmap_and_func():
    from torch.func import grad, jacrev, vmap

    x = scores(3, 4, 5)
    for operation in operators_of():
        for in_dim in (0, 1, 2):
            for dim in (-1, 0):
                batched = vmap(lambda r: operation(r, dim), in_dims=in_dim)(x)  # noqa: B023
                assert torch.equal(batched, torch.stack([operation(r, dim) for r in x.unbind(in_dim)]))
        nested = vmap(vmap(lambda r: operation(r, 0)))(x)
        assert torch.equal(nested, operation(x, 2))
        loss = lambda r: (operation(r, -1) ** 2).sum()  # noqa: E731, B023
        torch.testing.assert_close(vmap(grad(loss))(x), torch.stack([torch.autograd.functional.jacobian(loss, r) for r in x]))
        jacobian = jacrev(lambda r: operation(r, 0))(x[0, 0])
        torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(lambda r: operation(r, 0), x[0, 0]))
    row, p = x[0, 0], x[0, 0].softmax(0)
    hessian = jacrev(jacrev(lambda r: ours.logsumexp(r, 0)))
    torch.testing.assert_close(hessian(row), torch.diag(p) - torch.outer(p, p))


def test_forward_mode_is_refused():
    x = scores(3, 4)
    with forward_ad.dual_level():
        for call in (*operators_of(), lambda x, dim: ours.cross_entropy(x, torch.tensor([0, 1, 2]))):
            with pytest.raises(NotImplementedError, match="libsoftmax::.* has no forward mode; reverse mode .grad, jacrev. is allowed"):
                call(forward_ad.make_dual(x, x), 1)
        assert ours.softmax(x, 1).shape == x.shape


def test_vmap_of_options():
    from torch.func import vmap

    x, bias, mask = scores(3, 4, 5), scores(3, 5, seed=6), torch.rand(5, 3, generator=torch.Generator().manual_seed(0)) < 0.8
    lengths = torch.tensor([[1, 2, 3, 4], [5, 5, 5, 5], [0, 1, 0, 1]])
    call = lambda x, b, m, n: ours.softmax(x, 1, bias=b, mask=m, valid_lengths=n)  # noqa: E731
    one = torch.stack([call(x[i], bias[i], mask[:, i], lengths[i]) for i in range(3)])
    torch.testing.assert_close(vmap(call, in_dims=(0, 0, 1, 0))(x, bias, mask, lengths), one, equal_nan=True, rtol=0, atol=0)
    shared = vmap(lambda b: ours.softmax(x[0], 1, bias=b))(bias)
    assert torch.equal(shared, torch.stack([ours.softmax(x[0], 1, bias=b) for b in bias]))


def test_autocast():
    """As torch.softmax: on the CPU the input's type stays."""
    x = scores(3, 4, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for name in NAMES:
            assert getattr(ours, name)(x, 1).dtype == getattr(F, name)(x, 1).dtype
        assert ours.softmax(x.float() @ x.float().T, 1).dtype == torch.bfloat16
        assert ours.cross_entropy(x, torch.tensor([0, 1, 2])).dtype == F.cross_entropy(x, torch.tensor([0, 1, 2])).dtype
    if torch.cuda.is_available():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert ours.softmax(x.cuda(), 1).dtype == F.softmax(x.cuda(), 1).dtype == torch.float32


def test_modules():
    x = scores(3, 4, grad=True)
    assert torch.equal(ours.Softmax(1)(x), ours.softmax(x, 1)) and torch.equal(ours.LogSoftmax(dim=0)(x), ours.log_softmax(x, 0))
    assert torch.equal(ours.Softmax(1, scale=0.5)(x), ours.softmax(x, 1, scale=0.5))
    assert repr(ours.Softmax(1)) == "Softmax(dim=1)" and repr(ours.LogSoftmax(1)) == "LogSoftmax(dim=1)"
    theirs, module = (M(weight=torch.tensor([1.0, 2, 3, 4]).double(), ignore_index=2, label_smoothing=0.1)
                      for M in (torch.nn.CrossEntropyLoss, ours.CrossEntropyLoss))
    target = torch.tensor([0, 2, 3])
    torch.testing.assert_close(module(x, target), theirs(x, target))
    assert module.state_dict().keys() == theirs.state_dict().keys() and repr(module) == repr(theirs)
    assert isinstance(module, torch.nn.CrossEntropyLoss)


def test_compile():
    """fullgraph=True: one graph, forward and backward, static and dynamic shapes."""

    @torch.compile(fullgraph=True, dynamic=True)
    def model(x, w, target):
        z = ours.softmax(x @ w, -1, scale=0.5)
        return ours.cross_entropy(z @ w, target, label_smoothing=0.1) + ours.logsumexp(z, -1).sum() + ours.log_softmax(z, 0)[0].sum()

    for rows in (3, 4):
        x, w, target = scores(rows, 6, dtype=torch.float32, grad=True), scores(6, 6, dtype=torch.float32, grad=True), torch.arange(rows)
        compiled = model(x, w, target)
        eager = model._torchdynamo_orig_callable(x, w, target)
        torch.testing.assert_close(compiled, eager)
        for a, b in zip(torch.autograd.grad(compiled, (x, w)), torch.autograd.grad(eager, (x, w))):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
