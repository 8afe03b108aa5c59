"""Arrays on a CUDA device: the bits of the CPU, the array's own library for results, the current stream. Skipped without a GPU."""
import numpy as np
import pytest
import torch
from arrays_of import bits, torch_of
from exact import DTYPES

import libsoftmax

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def same(ours, cpu):
    """A result on the device against the CPU's."""
    return ours.is_cuda and bits(ours.cpu()) == bits(cpu)


@pytest.fixture
def built():
    try:
        libsoftmax.softmax(torch.zeros(4, device="cuda"))
    except ValueError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (2, 1000), (3, 4097), (1, 300_000), (4, 3, 70)])
@pytest.mark.parametrize("axis", [-1, 0])
def test_forwards(built, rng, dtype, shape, axis):
    x = (4 * rng.standard_normal(shape)).astype(DTYPES[dtype])
    made = torch_of(x).cuda()
    for function in (libsoftmax.softmax, libsoftmax.log_softmax, libsoftmax.logsumexp):
        assert same(function(made, axis), function(x, axis))
    assert same(libsoftmax.softmax(made, None), libsoftmax.softmax(x, None))


def test_options_and_out(built, rng):
    x, mask = rng.standard_normal((4, 6, 50)).astype(np.float32), rng.random((6, 50)) < 0.7
    bias, lengths = rng.standard_normal((6, 50)).astype(np.float32), rng.integers(1, 50, (4, 6))
    words = dict(bias=bias, mask=mask, valid_lengths=lengths)
    made = {name: torch.from_numpy(value).cuda() for name, value in words.items()}
    more = dict(scale=0.5, softcap=3.0, causal=True, causal_offset=20, empty_rows="zero")
    t = torch.from_numpy(x).cuda()
    assert libsoftmax.softmax(t, out=t, **made, **more) is t and same(t, libsoftmax.softmax(x, **words, **more))


def test_streams(built, rng):
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


def test_graph(built, rng):
    x = rng.standard_normal((8, 1000)).astype(np.float32)
    t, out = torch.zeros(8, 1000, device="cuda"), torch.empty(8, 1000, device="cuda")
    libsoftmax.softmax(t, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        libsoftmax.softmax(t, out=out)
    t.copy_(torch.from_numpy(x))
    graph.replay()
    assert same(out, libsoftmax.softmax(x))


def test_errors(built):
    t = torch.zeros(2, 3, device="cuda")
    with pytest.raises(ValueError, match="out is .*; x is on cuda:0|x is on cuda:0|out is on"):
        libsoftmax.softmax(t, out=np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="softmax: axis is 2"):
        libsoftmax.softmax(t, 2)
    with pytest.raises(ValueError, match="update: tile is on cuda:0"):
        libsoftmax.State(2).update(t)
