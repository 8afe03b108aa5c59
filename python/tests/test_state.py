"""State: tiles in any order, merges, pickles; the bits of one call."""
import copy
import pickle
import threading

import numpy as np
import pytest
import torch
from arrays_of import MAKE, Foreign, bits, kind_of
from exact import DTYPES

import libsoftmax

BLOCK = libsoftmax.BLOCK_COLUMNS


def tiles(columns, step):
    return [slice(i, min(i + step, columns)) for i in range(0, columns, step)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
def test_tiles_give_the_bits_of_one_call(rng, kind, dtype):
    x = (5 * rng.standard_normal((3, 2 * BLOCK + 77))).astype(DTYPES[dtype])
    expected, log = libsoftmax.softmax(x), libsoftmax.log_softmax(x)
    make = MAKE[kind]
    cuts = tiles(x.shape[1], BLOCK)
    states = []
    for order in (cuts, cuts[::-1]):
        state = libsoftmax.State(3, dtype)
        for cut in order:
            assert state.update(make(x[:, cut])) is state
        states.append(state)
    merged = libsoftmax.State(3, dtype)
    for cut in (cuts[1], cuts[2], cuts[0]):
        assert merged.merge(libsoftmax.State((3,), dtype).update(x[:, cut])) is merged
    for state in (*states, merged):
        for cut in cuts:
            y = state.normalise(make(x[:, cut]))
            assert kind_of(y) == kind and bits(y) == bits(expected[:, cut])
            assert bits(state.log_normalise(x[:, cut])) == bits(log[:, cut])
        if dtype in ("float32", "float64"):
            assert bits(state.logsumexp()) == bits(libsoftmax.logsumexp(x))


def test_axes_and_options(rng):
    x = rng.standard_normal((4, BLOCK + 30, 2)).astype(np.float32)
    mask, lengths = rng.random((1, BLOCK + 30, 2)) < 0.5, rng.integers(1, BLOCK + 30, (4, 2))
    words = dict(scale=0.3, softcap=9.0)
    state = libsoftmax.State((4, 2))
    for cut in tiles(x.shape[1], BLOCK):
        state.update(x[:, cut], 1, mask=mask[:, cut], valid_lengths=lengths, first_column=cut.start, **words)
    for cut in tiles(x.shape[1], BLOCK):
        y = state.normalise(x[:, cut], axis=1, mask=mask[:, cut], valid_lengths=lengths, first_column=cut.start, **words)
        assert bits(y) == bits(libsoftmax.softmax(x, 1, mask=mask, valid_lengths=lengths, **words)[:, cut])


def test_one_row(rng):
    x = rng.standard_normal(9)
    state = libsoftmax.State(dtype=np.float64).update(x)
    assert state.shape == () and state.dtype == "float64" and repr(state) == "State(shape=(), dtype='float64')"
    assert state.logsumexp() == libsoftmax.logsumexp(x) and state.logsumexp().dtype == np.float64
    assert bits(state.normalise(x, out=x)) == bits(x)


def test_empty_rows():
    state = libsoftmax.State(2)
    assert np.all(state.logsumexp() == -np.inf)
    tile = np.full((2, 3), -np.inf, np.float32)
    assert np.isnan(state.update(tile).normalise(tile)).all()
    assert (state.normalise(tile, empty_rows="zero") == 0).all()
    assert libsoftmax.State((0, 3)).update(np.zeros((0, 3, 5), np.float32)).logsumexp().shape == (0, 3)


@pytest.mark.parametrize("again", [lambda s: pickle.loads(pickle.dumps(s)), copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pickles(rng, again, dtype):
    x = rng.standard_normal((2, 3, 50)).astype(DTYPES[dtype])
    state = libsoftmax.State((2, 3), dtype).update(x)
    other = again(state)
    assert repr(other) == repr(state) and bits(other.normalise(x)) == bits(libsoftmax.softmax(x))
    other.update(x)  # apart from each other
    assert bits(state.normalise(x)) == bits(libsoftmax.softmax(x))


def test_place(rng):
    """States of the CPU; python/tests/test_cuda.py has those of a device."""
    x = rng.standard_normal((2, 50)).astype(np.float32)
    state = libsoftmax.State(2).update(x)
    other = state.cpu()
    assert other is not state and other.device == state.device == libsoftmax.State(2).device == "cpu"
    assert bits(other.update(x).logsumexp()) != bits(state.logsumexp()) == bits(libsoftmax.logsumexp(x))
    with pytest.raises(ValueError, match="merge: an output overlaps"):
        state.merge(state)


def test_nobody_comes_between(rng):
    """An array that uses the state while it is asked for its memory is refused, and changes nothing."""
    x, state, words = rng.standard_normal((2, 50)).astype(np.float32), libsoftmax.State(2), []

    class Meddler(Foreign):
        def __dlpack__(self, **more):
            for use in (lambda: state.update(x), lambda: state.merge(libsoftmax.State(2).update(x)), state.logsumexp,
                        lambda: state.__setstate__(libsoftmax.State(2).__reduce__()[2])):
                with pytest.raises(ValueError) as refused:
                    use()
                words.append(str(refused.value))
            return super().__dlpack__(**more)

    assert bits(state.update(Meddler(x)).logsumexp()) == bits(libsoftmax.logsumexp(x))
    assert len(words) == 4 and all("in use by another thread" in w for w in words)


def test_pickles_of_others_are_refused():
    state = libsoftmax.State(2)
    with pytest.raises(ValueError, match="State: 128 bytes are required, 64 for each row"):
        state.__setstate__(b"")
    with pytest.raises(ValueError, match="states of another type"):
        state.__setstate__(libsoftmax.State(2, "float64").__reduce__()[2])
    assert np.all(state.logsumexp() == -np.inf)


def test_out(rng):
    x = torch.from_numpy(rng.standard_normal((2, 9)).astype(np.float32))
    state, out = libsoftmax.State(2).update(x), torch.empty(2)
    assert state.logsumexp(out=out) is out and bits(out) == bits(libsoftmax.logsumexp(x))
    y = torch.empty(2, 9)
    assert state.normalise(x, out=y) is y and bits(y) == bits(libsoftmax.softmax(x))


ERRORS = [
    (lambda s: s.update(np.zeros((3, 4), np.float32)), ValueError, r"update: tile has shape (3,) without axis -1; (2,), the state's shape, is required"),
    (lambda s: s.update(np.zeros((2, 4), np.float32), 0), ValueError, r"update: tile has shape (4,) without axis 0; (2,), the state's shape, is required"),
    (lambda s: s.update(np.zeros((2, 4), np.float32), 7), ValueError, "update: axis is 7; tile has 2 dimensions"),
    (lambda s: s.update(np.zeros((2, 4), np.int32)), TypeError, "update: tile is int32; float32, float64, float16 or bfloat16 is allowed"),
    (lambda s: s.update(np.zeros((2, 4), np.float32), causal=True), ValueError, "update: first_column is None; with causal or valid_lengths"),
    (lambda s: s.update(np.zeros((2, 4), np.float32), first_column=-1, causal=False), ValueError, "update: first_column is -1"),
    (lambda s: s.normalise(np.zeros((2, 4), np.float32), out=np.zeros((2, 4))), TypeError, "normalise: out is float64; float32 is allowed"),
    (lambda s: s.merge(libsoftmax.State(3)), ValueError, "merge: other is State(shape=(3,), dtype='float32'); one of the shape of State(shape=(2,)"),
    (lambda s: s.merge(libsoftmax.State(2, "float64")), ValueError, "merge: other is State(shape=(2,), dtype='float64'); one of the type of"),
    (lambda s: s.merge(None), TypeError, "merge() needs the argument other"),
    (lambda s: s.merge(3), TypeError, "merge: other is a int; a State is required"),
    (lambda s: s.logsumexp(out=np.zeros(2)), ValueError, "logsumexp: out must be a contiguous float32 array of the state's shape"),
    (lambda s: libsoftmax.State(-1), ValueError, "State: shape is -1; a size or a tuple of at most 15 sizes of 0 or more is allowed"),
    (lambda s: libsoftmax.State(2**62), ValueError, "State: shape is 4611686018427387904"),
    (lambda s: libsoftmax.State("a"), ValueError, "State: shape is 'a'"),
    (lambda s: libsoftmax.State(2, "int32"), TypeError, "State: dtype is int32; float32, float64, float16 or bfloat16 is allowed"),
]


@pytest.mark.parametrize("call,error,words", ERRORS, ids=[words for _, _, words in ERRORS])
def test_errors(call, error, words):
    state = libsoftmax.State(2)
    with pytest.raises(error) as raised:
        call(state)
    assert str(raised.value).startswith(words)
    assert np.all(state.logsumexp() == -np.inf)


def test_two_threads_do_not_mix_a_state(rng):
    """Either both tiles count or the second is refused."""
    x = rng.standard_normal((1, 1 << 22)).astype(np.float32)
    state, refused = libsoftmax.State(1), []

    def update():
        try:
            state.update(x)
        except ValueError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=update) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(words == "update: the state is in use by another thread" for words in refused)
    expected = libsoftmax.State(1)
    for _ in range(4 - len(refused)):
        expected.update(x)
    assert bits(state.logsumexp()) == bits(expected.logsumexp())
