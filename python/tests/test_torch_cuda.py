"""libsoftmax.torch on a GPU: the CPU's bits, derivatives, torch.compile, autocast, streams, graphs, memory. Skipped without one."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)

import torch.nn.functional as F  # noqa: E402

from libsoftmax import torch as ours  # noqa: E402

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def built():
    try:
        ours.softmax(torch.zeros(4, device="cuda"), 0)
    except ValueError as error:
        pytest.skip(str(error))


def scores(*shape, dtype=torch.float32, grad=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(shape, generator=generator, dtype=torch.float64)).to(dtype).cuda().requires_grad_(grad)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(*(t.detach().cpu().contiguous().flatten().view(torch.uint8) for t in (a, b)))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("shape,dim", [((3, 5), 1), ((64, 1000), 1), ((6, 7, 40), 1), ((4, 20000), -1), ((), 0), ((0, 3), 1)])
def test_bits_of_the_cpu(shape, dim, dtype):
    x, dy = scores(*shape, dtype=dtype, grad=True), scores(*shape, dtype=dtype, seed=1)
    cpu = x.detach().cpu().requires_grad_()
    for function in (ours.softmax, ours.log_softmax):
        y, expected = function(x, dim), function(cpu, dim)
        assert y.is_cuda and same(y, expected)
        assert same(torch.autograd.grad(y, x, dy)[0], torch.autograd.grad(expected, cpu, dy.cpu())[0])
    assert same(ours.logsumexp(x, dim), ours.logsumexp(cpu, dim))


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: str(t)[6:])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"z_loss": 0.1, "softcap": 3.0}, {"reduction": "none"}, {"reduction": "sum"}], ids=str)
def test_bits_of_the_loss(dtype, options):
    x, targets = scores(33, 1001, dtype=dtype, grad=True), torch.arange(33) * 17 % 1001
    targets[3] = -100
    cpu = x.detach().cpu().requires_grad_()
    loss, expected = ours.cross_entropy(x, targets.cuda(), **options), ours.cross_entropy(cpu, targets, **options)
    assert same(loss, expected)
    for l in (loss, expected):
        l.sum().backward()
    assert same(x.grad, cpu.grad)


@pytest.mark.parametrize("options", [{}, {"scale": 0.7, "softcap": 3.0}, {"causal": True, "causal_offset": 1}], ids=str)
def test_derivatives(options):
    x = scores(3, 4, 5, dtype=torch.float64, grad=True)
    for function in (ours.softmax, ours.log_softmax, ours.logsumexp):
        call = lambda x: function(x, -1, **options).nan_to_num(neginf=0)  # noqa: E731, B023
        assert torch.autograd.gradcheck(call, (x,)) and torch.autograd.gradgradcheck(call, (x,))


@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.2, "z_loss": 0.1}, {"softcap": 3.0, "reduction": "none"}], ids=str)
def test_derivatives_of_the_loss(options):
    x, targets = scores(4, 7, dtype=torch.float64, grad=True), torch.tensor([0, -100, 3, 6], device="cuda")
    call = lambda x: ours.cross_entropy(x, targets, **options)  # noqa: E731
    assert torch.autograd.gradcheck(call, (x,)) and torch.autograd.gradgradcheck(call, (x,))
    q = F.softmax(scores(4, 7, dtype=torch.float64, seed=9), 1).requires_grad_()
    call = lambda x, q: ours.cross_entropy(x, q, **options)  # noqa: E731
    assert torch.autograd.gradcheck(call, (x, q)) and torch.autograd.gradgradcheck(call, (x, q))


class Layer(torch.autograd.Function):
    """What makes the logits: it receives the gradient in its backward, and keeps nothing."""

    @staticmethod
    def forward(ctx, weight, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient[0, 0].float(), None


def test_one_buffer():
    """Loss and backward take one buffer of the logits' size and no more than small change; in place, none."""
    x, targets = scores(1024, 32000, dtype=torch.bfloat16), torch.arange(1024, device="cuda")
    weight = torch.zeros((), device="cuda", requires_grad=True)
    for inplace, buffers in ((False, 1), (True, 0)):
        for _ in range(2):
            logits = Layer.apply(weight, x)
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            loss = ours.cross_entropy(logits, targets, inplace=inplace)
            (2 * loss).backward()
            peak = torch.cuda.max_memory_allocated() - before
            del loss, logits
        assert peak <= buffers * x.nbytes + 2**20, (inplace, peak / x.nbytes)


def test_the_host_never_waits():
    x, targets = scores(64, 5000, dtype=torch.bfloat16, grad=True), torch.arange(64, device="cuda")
    ours.cross_entropy(x, targets).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        (ours.cross_entropy(x, targets) * 3).backward()
        ours.softmax(x, 1).backward(x.detach())
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_upstream_gradients():
    x, targets = scores(64, 5000, grad=True), torch.arange(64, device="cuda")
    one = torch.autograd.grad(ours.cross_entropy(x, targets), x)[0]
    assert torch.equal(torch.autograd.grad(4 * ours.cross_entropy(x, targets), x)[0], 4 * one)
    torch.testing.assert_close(torch.autograd.grad(0.3 * ours.cross_entropy(x, targets), x)[0], 0.3 * one)
    rows = torch.linspace(0, 2, 64, device="cuda")
    losses = ours.cross_entropy(x, targets, reduction="none")
    torch.testing.assert_close(torch.autograd.grad(losses, x, rows)[0], 64 * one * rows[:, None])


def test_compile():
    @torch.compile(fullgraph=True, dynamic=False)
    def model(x, w, targets):
        z = ours.softmax(x @ w, -1, scale=0.5)
        return ours.cross_entropy(z @ w, targets, label_smoothing=0.1) + ours.log_softmax(z, 0)[0].sum()

    x, w, targets = scores(5, 6, grad=True), scores(6, 6, grad=True, seed=2), torch.arange(5, device="cuda")
    compiled, eager = model(x, w, targets), model._torchdynamo_orig_callable(x, w, targets)
    torch.testing.assert_close(compiled, eager)
    for a, b in zip(torch.autograd.grad(compiled, (x, w)), torch.autograd.grad(eager, (x, w))):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_autocast():
    """As torch.softmax: float32 results of 16-bit scores, with the gradient of the scores' own type."""
    x = scores(3, 40, dtype=torch.float16, grad=True)
    with torch.autocast("cuda", dtype=torch.float16):
        for name in ("softmax", "log_softmax"):
            y = getattr(ours, name)(x, 1)
            assert y.dtype == getattr(F, name)(x, 1).dtype == torch.float32
            assert torch.autograd.grad(y[:, 0].sum(), x)[0].dtype == torch.float16
        loss = ours.cross_entropy(x @ x.T @ x, torch.tensor([0, 1, 2], device="cuda"))
        assert loss.dtype == torch.float32
    loss.backward()
    assert x.grad.dtype == torch.float16


def test_streams_and_graphs():
    x, targets, stream = scores(64, 3000, grad=True), torch.arange(64, device="cuda"), torch.cuda.Stream()
    expected = torch.autograd.grad(ours.cross_entropy(x * 2, targets), x)[0]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            got = torch.autograd.grad(ours.cross_entropy(x * 2, targets), x)[0]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            captured = torch.autograd.grad(ours.cross_entropy(x * 2, targets), x)[0]
        captured.zero_()
        graph.replay()
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(got, expected) and torch.equal(captured, expected)


def test_vmap():
    from torch.func import grad, vmap

    x, targets = scores(3, 4, 7), torch.arange(12, device="cuda").reshape(3, 4) % 7
    assert torch.equal(vmap(lambda r: ours.softmax(r, 0))(x), ours.softmax(x, 1))
    loss = lambda r, t: ours.cross_entropy(r, t)  # noqa: E731
    torch.testing.assert_close(vmap(grad(loss))(x, targets), vmap(grad(lambda r, t: F.cross_entropy(r, t)))(x, targets))


def test_unknown_targets_are_nan():
    x = scores(4, 7, grad=True)
    losses = ours.cross_entropy(x, torch.tensor([0, 1, 7, 2], device="cuda"), reduction="none")
    losses.sum().backward()
    assert losses.isnan().tolist() == x.grad.isnan().any(1).tolist() == [False, False, True, False]
