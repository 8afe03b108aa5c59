"""Arrays on a CUDA device: the bits of the CPU, the array's own library for results, the current stream. Skipped without a GPU."""
import os

import numpy as np
import pytest
import torch

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take the memory that PyTorch needs
from arrays_of import bits, torch_of  # noqa: E402
from exact import DTYPES  # noqa: E402

import libsoftmax  # noqa: E402

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def same(ours, cpu):
    """A result on the device against the CPU's."""
    return ours.is_cuda and bits(ours.cpu()) == bits(cpu)


@pytest.fixture(autouse=True)
def built():
    try:
        libsoftmax.softmax(torch.zeros(4, device="cuda"))
    except ValueError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (2, 1000), (3, 4097), (1, 300_000), (4, 3, 70)])
@pytest.mark.parametrize("axis", [-1, 0])
def test_forwards(rng, dtype, shape, axis):
    x = (4 * rng.standard_normal(shape)).astype(DTYPES[dtype])
    made = torch_of(x).cuda()
    for function in (libsoftmax.softmax, libsoftmax.log_softmax, libsoftmax.logsumexp):
        assert same(function(made, axis), function(x, axis))
    assert same(libsoftmax.softmax(made, None), libsoftmax.softmax(x, None))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (2, 1000), (3, 20_000)])
def test_backwards_and_loss(rng, dtype, shape):
    x, dy = ((4 * rng.standard_normal(shape)).astype(DTYPES[dtype]) for _ in range(2))
    made, made_dy, targets = torch_of(x).cuda(), torch_of(dy).cuda(), rng.integers(0, shape[1], shape[0])
    for name in ("softmax", "log_softmax"):
        y = getattr(libsoftmax, name)(x)
        assert same(getattr(libsoftmax, name + "_backward")(torch_of(y).cuda(), made_dy), getattr(libsoftmax, name + "_backward")(y, dy))
    for reduction in ("none", "sum", "mean"):
        words = dict(reduction=reduction, gradient=True, row_logsumexp=True, grad_output=0.375)
        ours = libsoftmax.cross_entropy(made, torch.from_numpy(targets).cuda(), **words)
        assert all(map(same, ours, libsoftmax.cross_entropy(x, targets, **words)))


def test_options_and_out(rng):
    x, mask = rng.standard_normal((4, 6, 50)).astype(np.float32), rng.random((6, 50)) < 0.7
    bias, lengths = rng.standard_normal((6, 50)).astype(np.float32), rng.integers(1, 50, (4, 6))
    words = dict(bias=bias, mask=mask, valid_lengths=lengths)
    made = {name: torch.from_numpy(value).cuda() for name, value in words.items()}
    more = dict(scale=0.5, softcap=3.0, causal=True, causal_offset=20, empty_rows="zero")
    t = torch.from_numpy(x).cuda()
    assert libsoftmax.softmax(t, out=t, **made, **more) is t and same(t, libsoftmax.softmax(x, **words, **more))


def test_several_axes(rng):
    x = rng.standard_normal((3, 4, 5, 6)).astype(np.float32)
    t = torch.from_numpy(x).cuda()
    for axis in ((0, 2), (1, 2), (3, 0), None):
        assert same(libsoftmax.softmax(t, axis), libsoftmax.softmax(x, axis))


def test_streams(rng):
    x = rng.standard_normal((64, 4000)).astype(np.float32)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        t = torch.from_numpy(x).cuda()
        y = libsoftmax.softmax(t * 2)  # on the current stream, after the product
    stream.synchronize()
    assert same(y, libsoftmax.softmax(x * 2))
    out = torch.empty_like(t)
    libsoftmax.softmax(t, out=out, stream=stream)
    stream.synchronize()
    assert same(out, libsoftmax.softmax(x))


def test_the_current_stream_is_waited_for_and_no_other(rng):
    """What is queued on the caller's stream comes first, though it takes long; the call itself returns at once."""
    x = rng.standard_normal((64, 4000)).astype(np.float32)
    t, stream = torch.zeros(64, 4000, device="cuda"), torch.cuda.Stream()
    source = torch.from_numpy(x).cuda()
    libsoftmax.softmax(t)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(400_000_000)  # some 0.2 s
        t.copy_(source)
        y = libsoftmax.softmax(t)
        returned_early = not stream.query()
    stream.synchronize()
    assert returned_early and same(y, libsoftmax.softmax(x))


def test_graph(rng):
    x = rng.standard_normal((8, 1000)).astype(np.float32)
    t, out = torch.zeros(8, 1000, device="cuda"), torch.empty(8, 1000, device="cuda")
    libsoftmax.softmax(t, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        libsoftmax.softmax(t, out=out)
    t.copy_(torch.from_numpy(x))
    graph.replay()
    assert same(out, libsoftmax.softmax(x))


def test_cupy(rng):
    """CuPy's arrays, in and out, on CuPy's current stream."""
    cupy = pytest.importorskip("cupy")
    x = rng.standard_normal((32, 3000)).astype(np.float32)
    targets = rng.integers(0, 3000, 32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        made = cupy.asarray(x) * 2
        y, l = libsoftmax.softmax(made), libsoftmax.logsumexp(made, 0)
        loss, gradient = libsoftmax.cross_entropy(made, cupy.asarray(targets), gradient=True, grad_output=2.0)
        out = cupy.empty_like(made)
        assert libsoftmax.log_softmax(made, out=out) is out
        over_two = libsoftmax.softmax(made.reshape(4, 8, 3000), (0, 2))
        stream.synchronize()
    assert all(isinstance(a, cupy.ndarray) for a in (y, l, loss, gradient, over_two))
    expected = libsoftmax.cross_entropy(x * 2, targets, gradient=True, grad_output=2.0)
    for ours, cpu in [(y, libsoftmax.softmax(x * 2)), (l, libsoftmax.logsumexp(x * 2, 0)), (loss, expected[0]), (gradient, expected[1]),
                      (out, libsoftmax.log_softmax(x * 2)), (over_two, libsoftmax.softmax((x * 2).reshape(4, 8, 3000), (0, 2)))]:
        assert bits(ours.get()) == bits(cpu)


def test_jax(rng):
    """JAX's arrays: results are JAX's, and may be used at once by JAX, which knows nothing of our stream."""
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError as error:
        pytest.skip(str(error).splitlines()[0])
    x = rng.standard_normal((2000, 20_000)).astype(np.float32)
    made = jax.device_put(x, device)
    for _ in range(3):
        y = libsoftmax.softmax(made * 2)
        assert isinstance(y, jax.Array) and y.devices() == {device}
        assert bits(np.asarray(y + 0)) == bits(libsoftmax.softmax(x * 2))
    few, targets = x[:64], rng.integers(0, 20_000, 64)
    ours = libsoftmax.cross_entropy(jax.device_put(few, device), jax.device_put(targets, device), gradient=True, grad_output=2.0)
    assert [bits(np.asarray(a)) for a in ours] == [bits(a) for a in libsoftmax.cross_entropy(few, targets, gradient=True, grad_output=2.0)]
    assert bits(np.asarray(libsoftmax.softmax(made[:4].reshape(2, 2, -1), (0, 2)))) == bits(libsoftmax.softmax(x[:4].reshape(2, 2, -1), (0, 2)))
    with pytest.raises(ValueError, match="out is .* read-only"):
        libsoftmax.softmax(made, out=made)


def test_bad_targets():
    """A kernel cannot raise: NaN in the row, its number in device_status."""
    logits, word = torch.zeros(4, 3, device="cuda"), torch.zeros((), dtype=torch.int64, device="cuda")
    targets = torch.tensor([0, 1, 7, 2], device="cuda")
    losses, gradient = libsoftmax.cross_entropy(logits, targets, reduction="none", gradient=True, device_status=word)
    assert losses.isnan().tolist() == gradient.isnan().any(1).tolist() == [False, False, True, False] and word == 3


def test_errors():
    t = torch.zeros(2, 3, device="cuda")
    with pytest.raises(ValueError, match="out is .*; x is on cuda:0|x is on cuda:0|out is on"):
        libsoftmax.softmax(t, out=np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="softmax: axis is 2"):
        libsoftmax.softmax(t, 2)
    with pytest.raises(ValueError, match="update: tile is on cuda:0"):
        libsoftmax.State(2).update(t)
