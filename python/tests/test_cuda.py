"""Arrays on a CUDA device: the bits of the CPU, the array's own library for results, the current stream. Skipped without a GPU."""
import copy
import os
import pickle

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
    state = libsoftmax.State(2).update(t)
    with pytest.raises(ValueError, match="update: tile is on the CPU; cuda:0, where the state is, is required .cpu.. gives one on the CPU"):
        state.update(np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="logsumexp: out must be a contiguous float32 array of the state's shape, where it is"):
        state.logsumexp(out=np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="merge: other is .*float64.*; one of the type of"):
        state.merge(libsoftmax.State(2, "float64"))
    with pytest.raises(ValueError, match=r"update: tile has shape \(3,\) without axis -1; \(2,\), the state's shape, is required"):
        state.update(torch.zeros(3, 3, device="cuda"))


# ---- Libraries beside each other ------------------------------------------------------------------------------------


def late(stream):
    """Keeps a stream, of any library, busy for some 0.1 s."""
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        torch.cuda._sleep(200_000_000)


def test_streams_of_two_libraries(rng):
    """What CuPy's and PyTorch's streams still have to do for their arrays comes first, and what comes later sees the results."""
    cupy = pytest.importorskip("cupy")
    x, bias = (rng.standard_normal((64, 4000)).astype(np.float32) for _ in range(2))
    expected = libsoftmax.softmax(x, bias=bias)
    other, ours = cupy.cuda.Stream(non_blocking=True), torch.cuda.Stream()
    t, source, b, late_t = torch.from_numpy(x).cuda(), cupy.asarray(bias), cupy.zeros_like(cupy.asarray(bias)), torch.zeros(64, 4000, device="cuda")
    libsoftmax.softmax(t, bias=source)
    torch.cuda.synchronize()
    with other, torch.cuda.stream(ours):
        late(other.ptr)
        b[...] = source
        y = libsoftmax.softmax(t, bias=b)  # PyTorch's stream, after CuPy's
        waited_by_the_host = other.done
        b[...] = 0  # after the call
    torch.cuda.synchronize()
    assert not waited_by_the_host and same(y, expected)
    with other, torch.cuda.stream(ours):
        late(ours.cuda_stream)
        late_t.copy_(t)
        y = libsoftmax.softmax(source, bias=late_t)  # CuPy's stream, after PyTorch's: source is the scores here
        late_t.zero_()
    torch.cuda.synchronize()
    assert bits(y.get()) == bits(libsoftmax.softmax(bias, bias=x))
    out = cupy.zeros_like(source)
    torch.cuda.synchronize()
    with other, torch.cuda.stream(ours):
        late(ours.cuda_stream)
        libsoftmax.softmax(t, out=out)  # on PyTorch's
        twice = out * 2  # on CuPy's, which nothing else lets wait
    torch.cuda.synchronize()
    assert bits(twice.get()) == bits(2 * libsoftmax.softmax(x))


def test_pytorch_beside_jax(rng):
    jax = pytest.importorskip("jax")
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError as error:
        pytest.skip(str(error).splitlines()[0])
    x, bias = (rng.standard_normal((64, 4000)).astype(np.float32) for _ in range(2))
    source, t, ours = torch.from_numpy(x).cuda(), torch.zeros(64, 4000, device="cuda"), torch.cuda.Stream()
    libsoftmax.softmax(jax.device_put(bias, device) * 1, bias=source)  # JAX compiles now, and not while a stream is late
    torch.cuda.synchronize()
    with torch.cuda.stream(ours):
        late(ours.cuda_stream)
        t.copy_(source)
        y = libsoftmax.softmax(t, bias=jax.device_put(bias, device) * 1)
    torch.cuda.synchronize()
    assert same(y, libsoftmax.softmax(x, bias=bias))
    with torch.cuda.stream(ours):
        late(ours.cuda_stream)
        t.copy_(source + 1)
        y = libsoftmax.softmax(jax.device_put(bias, device), bias=t)
        assert bits(np.asarray(y)) == bits(libsoftmax.softmax(bias, bias=x + 1))


@pytest.mark.parametrize("kind", ["torch", "cupy"])
def test_scratch_of_the_arrays_library(rng, kind):
    """One long row is spread over the whole GPU, which takes scratch: its kernels are seen to run."""
    from torch.profiler import ProfilerActivity, profile

    x = rng.standard_normal((1, 128_256)).astype(np.float32)
    made = torch.from_numpy(x).cuda() if kind == "torch" else pytest.importorskip("cupy").asarray(x)
    libsoftmax.softmax(made)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        y = libsoftmax.softmax(made)
        torch.cuda.synchronize()
    kernels = [event.name for event in profiler.events()]
    assert any("split" in name for name in kernels), kernels
    assert bits(y.cpu() if kind == "torch" else y.get()) == bits(libsoftmax.softmax(x))


# ---- States ---------------------------------------------------------------------------------------------------------

CUTS = [slice(0, 1024), slice(1024, 2048), slice(2048, 2125)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_state(rng, dtype):
    x = (5 * rng.standard_normal((3, 2125))).astype(DTYPES[dtype])
    made = torch_of(x).cuda()
    state = libsoftmax.State(3, dtype)
    assert state.device == "cpu"
    for cut in CUTS[::-1]:
        assert state.update(made[:, cut]) is state and state.device == "cuda:0"
    parts = [libsoftmax.State(3, dtype).update(made[:, cut]) for cut in CUTS]
    merged = libsoftmax.State(3, dtype)
    for part in (parts[1], pickle.loads(pickle.dumps(parts[2])), parts[0].cpu()):  # on the device, and from elsewhere
        assert merged.merge(part) is merged and merged.device == "cuda:0"
    onto_cpu = parts[0].cpu()
    assert onto_cpu.device == "cpu"
    onto_cpu.update(x[:, CUTS[1]]).update(made[:, CUTS[2]])  # goes to the device with what it has
    copied = copy.copy(state)
    assert copied.device == copy.deepcopy(state).device == onto_cpu.device == "cuda:0"
    copied.merge(libsoftmax.State(3, dtype))  # an empty one changes nothing
    expected = libsoftmax.State(3, dtype).update(x)
    for s in (state, merged, onto_cpu, copied):
        assert same(s.logsumexp(), expected.logsumexp())
        for cut in CUTS:
            assert same(s.normalise(made[:, cut]), libsoftmax.softmax(x)[:, cut])
            assert same(s.log_normalise(made[:, cut]), libsoftmax.log_softmax(x)[:, cut])
    again = pickle.loads(pickle.dumps(state))
    assert again.device == "cpu" and bits(again.normalise(x)) == bits(libsoftmax.softmax(x))
    copied.update(made)  # apart from each other
    assert same(state.logsumexp(), expected.logsumexp())


def test_state_options_and_out(rng):
    x = rng.standard_normal((4, 1054, 2)).astype(np.float32)
    mask, lengths = rng.random((1, 1054, 2)) < 0.5, rng.integers(1, 1054, (4, 2))
    made, made_mask, made_lengths = (torch.from_numpy(a).cuda() for a in (x, mask, lengths))
    state, words = libsoftmax.State((4, 2)), dict(scale=0.3, softcap=9.0)
    for cut in (slice(0, 1024), slice(1024, 1054)):
        state.update(made[:, cut], 1, mask=made_mask[:, cut], valid_lengths=made_lengths, first_column=cut.start, **words)
    l = torch.empty(4, 2, device="cuda")
    assert state.logsumexp(out=l) is l and same(l, libsoftmax.logsumexp(x, 1, mask=mask, valid_lengths=lengths, **words))
    for cut in (slice(0, 1024), slice(1024, 1054)):
        y = torch.empty_like(made[:, cut])
        state.normalise(made[:, cut], 1, out=y, mask=made_mask[:, cut], valid_lengths=made_lengths, first_column=cut.start, **words)
        assert same(y, libsoftmax.softmax(x, 1, mask=mask, valid_lengths=lengths, **words)[:, cut])
    empty = libsoftmax.State((0, 3)).update(torch.zeros(0, 3, 5, device="cuda"))
    assert empty.logsumexp().shape == (0, 3) and pickle.loads(pickle.dumps(empty)).shape == (0, 3)


def test_state_never_waits(rng):
    """Tiles, merges, copies and results only put work on the current stream: it may be long in coming, and be captured in a graph."""
    x = rng.standard_normal((64, 2048)).astype(np.float32)
    source, t, stream = torch.from_numpy(x).cuda(), torch.zeros(64, 2048, device="cuda"), torch.cuda.Stream()

    def work():
        state = libsoftmax.State(64).update(t[:, :1024])
        state = copy.copy(state).merge(libsoftmax.State(64).update(t[:, 1024:]))
        return state.logsumexp(), state.normalise(t[:, :1024])

    work()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        late(stream.cuda_stream)
        t.copy_(source)
        results = work()
        returned_early = not stream.query()
    stream.synchronize()
    expected = libsoftmax.logsumexp(x), libsoftmax.softmax(x)[:, :1024]
    assert returned_early and all(map(same, results, expected))
    t.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work()
    t.copy_(source)
    graph.replay()
    assert all(map(same, results, expected))


@pytest.mark.parametrize("kind", ["cupy", "jax"])
def test_state_of_other_libraries(rng, kind):
    library = pytest.importorskip(kind)
    if kind == "jax":
        try:
            device = library.devices("cuda")[0]
        except RuntimeError as error:
            pytest.skip(str(error).splitlines()[0])
    make = library.asarray if kind == "cupy" else lambda a: library.device_put(a, device)
    x = rng.standard_normal((3, 2125)).astype(np.float32)
    state = libsoftmax.State(3)
    for cut in CUTS[:2]:
        state.update(make(x[:, cut]))
    state.merge(pickle.loads(pickle.dumps(libsoftmax.State(3).update(make(x[:, CUTS[2]])))))
    l, y = state.logsumexp(), state.normalise(make(x))
    assert type(l) is type(y) is type(make(x)) and state.device == "cuda:0"
    for ours, cpu in ((l, libsoftmax.logsumexp(x)), (y, libsoftmax.softmax(x))):
        assert bits(np.asarray(ours.get() if kind == "cupy" else ours)) == bits(cpu)
    # A tile of PyTorch's into CuPy's state: on PyTorch's stream, after CuPy's.
    assert same(state.normalise(torch.from_numpy(x).cuda()), libsoftmax.softmax(x))
