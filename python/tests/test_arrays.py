"""Arrays of every kind: the same bits, the caller's kind back, no copies, outputs, strides, in place."""
import ml_dtypes
import numpy as np
import pytest
import torch
from arrays_of import MAKE, Foreign, bits, kind_of
from exact import DTYPES

import libsoftmax

SHAPE = (3, 5, 7)


def array(rng, dtype, shape=SHAPE):
    return rng.standard_normal(shape).astype(DTYPES[dtype])


def of_kind(kind, a):
    if kind in ("foreign", "old") and a.dtype.name == "bfloat16":
        pytest.skip("NumPy's __dlpack__ has no bfloat16")
    return MAKE[kind](a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", MAKE)
def test_kinds_agree(rng, kind, dtype):
    x, dy = array(rng, dtype), array(rng, dtype)
    targets = rng.integers(0, 7, (3, 5))
    made, made_dy = of_kind(kind, x), of_kind(kind, dy)
    calls = [(libsoftmax.softmax, ()), (libsoftmax.log_softmax, ()), (libsoftmax.logsumexp, ())]
    for function, _ in calls:
        y = function(made)
        assert kind_of(y) == kind_of(made) and bits(y) == bits(function(x))
    for forward, backward in ((libsoftmax.softmax, libsoftmax.softmax_backward), (libsoftmax.log_softmax, libsoftmax.log_softmax_backward)):
        dx = backward(forward(made), made_dy)
        assert kind_of(dx) == kind_of(made) and bits(dx) == bits(backward(forward(x), dy))
    loss, gradient, lse = libsoftmax.cross_entropy(made, MAKE[kind](targets), gradient=True, row_logsumexp=True)
    expected = libsoftmax.cross_entropy(x, targets, gradient=True, row_logsumexp=True)
    assert kind_of(gradient) == kind_of(loss if kind != "numpy" else gradient) == kind_of(made)
    assert [bits(a) for a in (loss, gradient, lse)] == [bits(a) for a in expected]


@pytest.mark.parametrize("kind", [k for k in MAKE if k != "jax"])  # JAX's arrays may not be written
def test_out_is_written_and_returned(rng, kind):
    x = array(rng, "float32")
    memory = np.full(SHAPE, 9, np.float32)
    out = MAKE[kind](memory)
    assert libsoftmax.softmax(MAKE[kind](x), out=out) is out
    assert bits(memory) == bits(libsoftmax.softmax(x))  # no copy: the array's own memory
    assert libsoftmax.softmax(out, out=out) is out
    assert bits(memory) == bits(libsoftmax.softmax(libsoftmax.softmax(x)))


def test_mixed_kinds(rng):
    x = array(rng, "float32")
    out = torch.empty(SHAPE)
    assert libsoftmax.softmax(x, out=out, mask=torch.ones(SHAPE, dtype=torch.bool)) is out
    assert bits(out) == bits(libsoftmax.softmax(x))


def test_jax_is_not_written(rng):
    import jax.numpy as jnp
    x = jnp.asarray(array(rng, "float32"))
    with pytest.raises(ValueError, match="out is .* read-only; a writable array is required"):
        libsoftmax.softmax(x, out=x)


@pytest.mark.parametrize("view", [lambda a: a[::-1], lambda a: a[:, ::2], lambda a: a.T, lambda a: np.asfortranarray(a), lambda a: a[..., 1:4],
                                  lambda a: np.broadcast_to(a[:1], a.shape), lambda a: a.astype(np.float64).astype(np.float32, order="F")],
                         ids=["reversed", "stepped", "transposed", "fortran", "sliced", "broadcast", "copied"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_strides(rng, view, axis):
    x = view(array(rng, "float32"))
    expected = libsoftmax.softmax(np.ascontiguousarray(x), axis)
    assert bits(libsoftmax.softmax(x, axis)) == bits(expected)
    if not 0 in x.strides and min(x.strides) > 0:
        t = torch.from_numpy(x)
        assert bits(libsoftmax.softmax(t, axis)) == bits(expected)
        base = np.full((9, 9, 9), 7, np.float32)
        out = base[: x.shape[0], : x.shape[1], : x.shape[2]]
        libsoftmax.softmax(x, axis, out=out)
        assert bits(out) == bits(expected) and (base == 7).sum() == base.size - x.size


def test_odd_strides_are_refused():
    records = np.zeros(4, dtype=[("a", "f4"), ("b", "i1")])
    with pytest.raises(ValueError, match="softmax: x has a stride of 5 bytes in dimension 0; a multiple of the element's 4 bytes is allowed"):
        libsoftmax.softmax(records["a"])


def test_misaligned(rng):
    x = array(rng, "float32", (3, 100))
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    raw[:] = x
    assert raw.ctypes.data % 4 and bits(libsoftmax.softmax(raw)) == bits(libsoftmax.softmax(x))


@pytest.mark.parametrize("function", [libsoftmax.softmax, libsoftmax.log_softmax])
@pytest.mark.parametrize("shape", [(10, 0), (0, 10), (0, 0), (0,)])
def test_empty(function, shape):
    for kind in MAKE:
        x = MAKE[kind](np.zeros(shape, np.float32))
        assert bits(function(x)) == b"" and kind_of(function(x)) == kind_of(x)
    lse = libsoftmax.logsumexp(np.zeros(shape, np.float32))
    assert np.shape(lse) == shape[:-1] and np.all(lse == -np.inf)


def test_inputs_are_unchanged(rng):
    for dtype in DTYPES:
        x, dy = array(rng, dtype), array(rng, dtype)
        before = bits(x), bits(dy)
        y = libsoftmax.softmax(x)
        libsoftmax.softmax_backward(y, dy)
        libsoftmax.cross_entropy(x, rng.integers(0, 7, (3, 5)), gradient=True)
        assert (bits(x), bits(dy)) == before and bits(y) == bits(libsoftmax.softmax(x))


def test_gradient_over_the_logits(rng):
    x = array(rng, "float32", (4, 9))
    targets = [0, 1, 2, 3]
    _, gradient = libsoftmax.cross_entropy(x, targets, gradient=True)
    _, same = libsoftmax.cross_entropy(x, targets, gradient=x)
    assert same is x and bits(x) == bits(gradient)


def test_array_likes():
    row = libsoftmax.softmax([1, 2, 3])
    assert row.dtype == np.float64 and bits(row) == bits(libsoftmax.softmax(np.array([1.0, 2.0, 3.0])))
    assert libsoftmax.logsumexp((0.0, 0.0)) == np.log(2)
    assert isinstance(libsoftmax.logsumexp(np.zeros(2, np.float32)), np.float32)
    assert libsoftmax.softmax(np.float32(3), axis=None).shape == ()

    class HasArray:  # as a data frame
        def __array__(self, dtype=None, copy=None):
            return np.ones((2, 2), np.float32)

    assert bits(libsoftmax.softmax(HasArray())) == bits(np.full((2, 2), 0.5, np.float32))


def test_memory_maps(tmp_path, rng):
    x = array(rng, "float32")
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert bits(libsoftmax.softmax(mapped)) == bits(libsoftmax.softmax(x))
    with pytest.raises(ValueError, match="out is read-only"):
        libsoftmax.softmax(mapped, out=mapped)


@pytest.mark.parametrize("name", ["float32", np.float32, np.dtype("f4"), "f4", torch.float32])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_dtype(rng, dtype, name):
    x = array(rng, dtype)
    wide = libsoftmax.softmax(x, dtype=name)
    assert wide.dtype == np.float32 and bits(wide.astype(x.dtype)) == bits(libsoftmax.softmax(x))
    t = libsoftmax.softmax(MAKE["torch"](x), dtype=name)
    assert t.dtype == torch.float32 and bits(t) == bits(wide)


def test_bfloat16_needs_no_array_of_it(rng):
    """A NumPy result from a state of bfloat16 finds ml_dtypes by itself."""
    state = libsoftmax.State(2, "bfloat16")
    tile = rng.standard_normal((2, 4)).astype(ml_dtypes.bfloat16)
    assert bits(state.update(tile).normalise(tile)) == bits(libsoftmax.softmax(tile))


def test_torch_views_that_are_promises():
    with pytest.raises(ValueError, match="softmax: x requires grad; libsoftmax.torch has"):
        libsoftmax.softmax(torch.zeros(3, requires_grad=True))
    with torch.no_grad():
        assert libsoftmax.softmax(torch.zeros(2, requires_grad=True)).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="softmax: x is a negated view"):
        libsoftmax.softmax(torch.zeros(3, dtype=torch.complex64).conj().imag)
    with pytest.raises(ValueError, match="softmax: x is a Tensor that cannot be passed by DLPack: Cannot pack tensors on meta"):
        libsoftmax.softmax(torch.zeros(3, device="meta"))
    assert libsoftmax.softmax(torch.nn.Parameter(torch.zeros(2), requires_grad=False)).tolist() == [0.5, 0.5]


def test_streams_are_not_asked_for_on_the_cpu():
    x = Foreign(np.zeros(4, np.float32))
    libsoftmax.softmax(x)
    assert x.stream is None


def test_cuda_arrays_reach_the_library():
    """A pretended CUDA array: the stream goes to its producer, and the words say what is missing or wrong."""

    class Pretended(Foreign):
        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, **words):
            self.stream = words.get("stream")
            return self.array.__dlpack__()

    x = Pretended(np.zeros(4, np.float32))
    libsoftmax.softmax(x)  # its capsule says CPU
    assert x.stream == 1
    libsoftmax.softmax(x, stream=77)
    assert x.stream == 77

    class Stream:
        def __cuda_stream__(self):
            return (0, 78)

    libsoftmax.softmax(x, stream=Stream())
    assert x.stream == 78
