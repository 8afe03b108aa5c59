"""libsoftmax.torch.cross_entropy: torch.nn.functional's semantics, derivatives of every order, memory, and the in-place mode."""

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

from libsoftmax import torch as ours  # noqa: E402

WEIGHT = torch.tensor([0.5, 1, 2, 0, 3, 1.5, 1], dtype=torch.float64)
THEIR_OPTIONS = {
    "plain": {},
    "smoothing": {"label_smoothing": 0.2},
    "weight": {"weight": WEIGHT},
    "both": {"weight": WEIGHT, "label_smoothing": 0.3},
}
MASK = torch.tensor([[1, 1, 1, 0, 1, 1, 1]], dtype=torch.uint8)
OUR_OPTIONS = {
    "z_loss": {"z_loss": 0.1},
    "softcap": {"softcap": 3.0},
    "mask": {"mask": MASK},
    "lengths": {"valid_lengths": torch.tensor([7, 6, 7, 7])},
    "all": {"z_loss": 0.1, "softcap": 3.0, "weight": WEIGHT, "label_smoothing": 0.3, "mask": MASK},
}


def scores(*shape, dtype=torch.float64, grad=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_(grad)


def problem(kind, *shape, dtype=torch.float64):
    """(logits, targets): classes with an ignored row, or probabilities."""
    x = scores(*shape, dtype=dtype, grad=True)
    if kind == "probabilities":
        return x, F.softmax(scores(*shape, dtype=dtype, seed=9), 1 if len(shape) > 1 else 0).detach().requires_grad_()
    rows = (shape[0], *shape[2:]) if len(shape) > 1 else ()
    targets = torch.arange(torch.Size(rows).numel()).reshape(rows) * 5 % shape[1 if len(shape) > 1 else 0]
    if rows:
        targets[1] = -100
    return x, targets


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("kind", ["classes", "probabilities"])
@pytest.mark.parametrize("options", THEIR_OPTIONS)
def test_as_torch(options, kind, reduction):
    for shape in ((4, 7), (7,), (3, 7, 2), (2, 7, 3, 2)):
        x, targets = problem(kind, *shape)
        wanted = [t for t in (x, targets) if t.requires_grad]
        call = {"reduction": reduction, **THEIR_OPTIONS[options]}
        loss, theirs = ours.cross_entropy(x, targets, **call), F.cross_entropy(x, targets, **call)
        assert loss.shape == theirs.shape and loss.dtype == theirs.dtype
        torch.testing.assert_close(loss, theirs)
        upstream = torch.linspace(0.5, 2, loss.numel(), dtype=loss.dtype).reshape(loss.shape)
        for a, b in zip(torch.autograd.grad(loss, wanted, upstream), torch.autograd.grad(theirs, wanted, upstream)):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("kind", ["classes", "probabilities"])
@pytest.mark.parametrize("options", [*THEIR_OPTIONS, *OUR_OPTIONS])
def test_derivatives(options, kind):
    chosen = {**THEIR_OPTIONS, **OUR_OPTIONS}[options]
    x, targets = problem(kind, 4, 7)
    if kind == "classes" and "mask" in chosen:
        targets[targets == 3] = 2
    wanted = tuple(t for t in (x, targets) if t.requires_grad)
    for reduction in ("mean", "sum", "none"):

        def loss(x, targets=targets):
            return ours.cross_entropy(x, targets, reduction=reduction, **chosen)  # noqa: B023

        if kind == "probabilities" and "softcap" not in chosen and ("mask" in chosen or "valid_lengths" in chosen):
            wanted = wanted[:1]  # a masked column's log-probability is -inf, and so is its target's gradient
        assert torch.autograd.gradcheck(loss, wanted) and torch.autograd.gradgradcheck(loss, wanted)


def test_formula_of_our_options():
    x, targets = problem("classes", 4, 7)
    kept = targets != -100
    z = 3 * torch.tanh(x / 3)
    lse = torch.logsumexp(z, 1)
    expected = F.cross_entropy(z, targets, WEIGHT, label_smoothing=0.1) + 0.2 * (lse[kept] ** 2).mean()
    torch.testing.assert_close(ours.cross_entropy(x, targets, WEIGHT, label_smoothing=0.1, z_loss=0.2, softcap=3.0), expected)
    seen = z.masked_fill(MASK == 0, -torch.inf)
    torch.testing.assert_close(ours.cross_entropy(x, targets, softcap=3.0, mask=MASK), F.cross_entropy(seen, targets))


def test_third_derivative():
    x, targets = problem("classes", 3, 4)

    def third(loss):
        g = torch.autograd.grad(loss, x, create_graph=True)[0]
        h = torch.autograd.grad((g**3).sum(), x, create_graph=True)[0]
        return torch.autograd.grad((h**2).sum(), x)[0]

    torch.testing.assert_close(third(ours.cross_entropy(x, targets)), third(F.cross_entropy(x, targets)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types(dtype):
    """The loss of 16-bit logits is float32, their gradient of their own type, both those of the widened logits, rounded once."""
    x, targets = problem("classes", 5, 30, dtype=dtype)
    wide = x.detach().float().requires_grad_()
    loss, exact = ours.cross_entropy(x, targets), F.cross_entropy(wide.double(), targets)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), exact, rtol=2e-7, atol=0)
    loss.backward()
    ours.cross_entropy(wide, targets).backward()
    assert x.grad.dtype == dtype and torch.equal(x.grad, wide.grad.to(dtype))
    # A confident row: 1 - p is below float32's resolution, and the loss is right.
    row = torch.tensor([[40.0, 0, 0]], dtype=dtype, requires_grad=True)
    sure = ours.cross_entropy(row, torch.tensor([0]))
    sure.backward()
    torch.testing.assert_close(sure.item(), 8.4967086e-18, rtol=1e-6, atol=0)
    torch.testing.assert_close(row.grad[0, 0].item(), 0.0 if dtype == torch.float16 else -8.4967086e-18, rtol=1e-2, atol=0)


def test_edges():
    x = scores(4, 7, grad=True)
    nothing = torch.full((4,), -100)
    assert ours.cross_entropy(x, nothing).isnan() and ours.cross_entropy(x, nothing, reduction="sum") == 0
    assert ours.cross_entropy(x[:0], nothing[:0]).isnan() and ours.cross_entropy(x[:0], nothing[:0], reduction="none").shape == (0,)
    assert torch.equal(ours.cross_entropy(x, nothing.int().fill_(2)), ours.cross_entropy(x, nothing.fill_(2)))
    assert torch.equal(ours.cross_entropy(x, nothing, None, False), ours.cross_entropy(x, nothing, reduction="sum"))
    strided = scores(7, 8, grad=True).T[::2]
    torch.testing.assert_close(ours.cross_entropy(strided, nothing), F.cross_entropy(strided, nothing))
    before = x.detach().clone()
    ours.cross_entropy(x, nothing).backward()
    assert torch.equal(x, before)
    with torch.no_grad():
        assert ours.cross_entropy(x, nothing).grad_fn is None


def test_errors_are_words():
    x = scores(4, 7)
    with pytest.raises((ValueError, IndexError), match="7"):
        ours.cross_entropy(x, torch.tensor([0, 1, 7, 2]))
    with pytest.raises(ValueError, match="label_smoothing is 2; 0 to 1 is allowed"):
        ours.cross_entropy(x, torch.tensor([0, 1, 2, 3]), label_smoothing=2)
    with pytest.raises(ValueError, match="reduction is 'max'; 'none', 'sum' and 'mean' are allowed"):
        ours.cross_entropy(x, torch.tensor([0, 1, 2, 3]), reduction="max")
    with pytest.raises(ValueError, match="weight requires a gradient"):
        ours.cross_entropy(x, torch.tensor([0, 1, 2, 3]), torch.ones(7, requires_grad=True))
    with pytest.raises((ValueError, TypeError)):
        ours.cross_entropy(x, torch.tensor([0, 1, 2]))


class TestOneBuffer:
    """What forward keeps, and who may write to it."""

    def test_keeps_the_gradient_alone(self):
        x, targets = problem("classes", 64, 1000, dtype=torch.float32)
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
            ours.cross_entropy(x, targets)
        assert [t.shape for t in kept if t.numel() >= 64 * 1000] == [x.shape]
        assert x.data_ptr() not in [t.data_ptr() for t in kept]

    def test_gives_it_away_in_the_last_backward(self):
        x, targets = problem("classes", 8, 100, dtype=torch.float32)
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
            loss = ours.cross_entropy(x, targets)
        loss.backward()
        assert x.grad.data_ptr() in kept

    @pytest.mark.parametrize("reduction", ["mean", "none"])
    def test_a_graph_that_is_kept_stays_right(self, reduction):
        x, targets = problem("classes", 8, 100)
        loss = ours.cross_entropy(x, targets, reduction=reduction)
        upstream = torch.full_like(loss, 3)
        first = torch.autograd.grad(loss, x, upstream, retain_graph=True)[0]
        kept = first.clone()
        first.mul_(17)
        second = torch.autograd.grad(loss, x, upstream, retain_graph=True)[0]
        assert torch.equal(kept, second)
        assert torch.equal(torch.autograd.grad(loss, x, upstream)[0], second)

    def test_accumulates(self):
        x, targets = problem("classes", 8, 100)
        for _ in range(2):
            (2 * ours.cross_entropy(x, targets)).backward()
        y = x.detach().clone().requires_grad_()
        (4 * F.cross_entropy(y, targets)).backward()
        torch.testing.assert_close(x.grad, y.grad)


class TestInplace:
    def test_overwrites_and_is_right(self):
        for reduction in ("mean", "sum", "none"):
            x, targets = problem("classes", 6, 50, dtype=torch.float32)
            logits = x * 1
            address = logits.data_ptr()
            loss = ours.cross_entropy(logits, targets, reduction=reduction, inplace=True)
            # The logits hold the gradient already.
            assert logits.data_ptr() == address and not torch.equal(logits, x)
            plain = ours.cross_entropy(x, targets, reduction=reduction)
            assert torch.equal(loss, plain)
            upstream = torch.full_like(loss, 2)
            assert torch.equal(*(torch.autograd.grad(l, x, upstream)[0] for l in (loss, plain)))

    def test_refuses_double_backward(self):
        x, targets = problem("classes", 6, 50)
        loss = ours.cross_entropy(x * 1, targets, inplace=True)
        with pytest.raises(RuntimeError, match="inplace is True; double backward is allowed with inplace=False"):
            torch.autograd.grad(loss, x, create_graph=True)

    def test_later_use_is_noticed(self):
        x, targets = problem("classes", 6, 50)
        logits = x * 1
        loss = ours.cross_entropy(logits, targets, inplace=True) + logits.sum()
        with pytest.raises(RuntimeError, match="the logits hold the gradient"):
            loss.backward()
        kept = torch.sigmoid(x)  # sigmoid's backward needs its output
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            ours.cross_entropy(kept, targets, inplace=True).backward()
        with pytest.raises(RuntimeError, match="leaf"):
            ours.cross_entropy(x, targets, inplace=True)

    def test_without_grad(self):
        x, targets = problem("classes", 6, 50)
        with torch.no_grad():
            loss = ours.cross_entropy(x.detach().clone(), targets, inplace=True)
        assert torch.equal(loss, ours.cross_entropy(x.detach(), targets))


def test_func_and_vmap():
    from torch.func import grad, vmap

    x, targets = scores(3, 4, 7), torch.arange(12).reshape(3, 4) % 7
    for options in ({}, {"reduction": "none"}, {"label_smoothing": 0.1, "weight": WEIGHT}):
        call = lambda r, t: ours.cross_entropy(r, t, **options)  # noqa: E731, B023
        assert torch.equal(vmap(call)(x, targets), torch.stack([call(r, t) for r, t in zip(x, targets)]))
        total = lambda r, t: call(r, t).sum()  # noqa: E731, B023
        theirs = lambda r, t: F.cross_entropy(r, t, **options).sum()  # noqa: E731, B023
        torch.testing.assert_close(vmap(grad(total))(x, targets), vmap(grad(theirs))(x, targets))
        y = x.clone().requires_grad_()
        (one,) = torch.autograd.grad(vmap(total)(y, targets).sum(), y)
        torch.testing.assert_close(one, vmap(grad(theirs))(x, targets))


def test_meta_and_opcheck():
    x, targets = problem("classes", 4, 7, 2)
    for reduction, shape in (("mean", ()), ("sum", ()), ("none", (4, 2))):
        logits = x.detach().to("meta").requires_grad_()
        meta = ours.cross_entropy(logits, targets.to("meta"), reduction=reduction)
        assert meta.device.type == "meta" and meta.shape == shape and meta.dtype == torch.float64
        (gradient,) = torch.autograd.grad(meta.sum(), logits)
        assert gradient.is_meta and gradient.shape == x.shape
    assert ours.cross_entropy(x.bfloat16().to("meta"), targets.to("meta")).dtype == torch.float32
    tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    arguments = (x, targets, None, -100, "mean", 0.1, 0.1, 0.0, None, None, True, False)
    torch.library.opcheck(torch.ops.libsoftmax.cross_entropy.default, arguments, test_utils=tests)
