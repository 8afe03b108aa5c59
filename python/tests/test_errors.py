"""Words about errors: the argument, its value, what is allowed; ValueError and TypeError; nothing is written."""
import numpy as np
import pytest

import libsoftmax

X = np.zeros((2, 3), np.float32)


def softmax(**words):
    return lambda out: libsoftmax.softmax(X, out=out, **words)


def loss(targets=(0, 1), **words):
    return lambda out: libsoftmax.cross_entropy(X, np.asarray(targets), gradient=out, **words)


CASES = [
    (lambda out: libsoftmax.softmax(), TypeError, "softmax() needs the argument x"),
    (lambda out: libsoftmax.softmax(X, 0, 1), TypeError, "softmax() takes 2 arguments without a name; 3 were given"),
    (lambda out: libsoftmax.softmax(X, x=X), TypeError, "softmax() was given x twice"),
    (softmax(temperature=2), TypeError, "softmax() has no argument 'temperature'"),
    (lambda out: libsoftmax.softmax(np.arange(3), out=out), TypeError, "softmax: x is int64; float32, float64, float16 or bfloat16 is allowed"),
    (lambda out: libsoftmax.softmax(np.zeros(3, bool), out=out), TypeError, "softmax: x is bool8; float32"),
    (lambda out: libsoftmax.softmax(np.zeros(3, complex), out=out), TypeError, "softmax: x is complex128; float32"),
    (lambda out: libsoftmax.softmax(np.zeros(3, np.longdouble), out=out), TypeError, "softmax: x is float128; float32"),
    (lambda out: libsoftmax.softmax(np.zeros(3, ">f4"), out=out), TypeError, "softmax: x is >f4, of the other byte order; the machine's own is allowed"),
    (lambda out: libsoftmax.softmax(np.array(["a"]), out=out), TypeError, "softmax: x is <U1; float32"),
    (lambda out: libsoftmax.softmax("abc", out=out), TypeError, "softmax: x is <U3; float32"),
    (lambda out: libsoftmax.softmax(None, out=out), TypeError, "softmax() needs the argument x"),
    (lambda out: libsoftmax.softmax(object(), out=out), TypeError, "softmax: x is object; float32"),
    (lambda out: libsoftmax.softmax([[1, 2], [3]], out=out), TypeError, "softmax: x is a list; an array or what numpy.asarray takes is required"),
    (lambda out: libsoftmax.softmax(np.ma.array([1.0, 2.0], mask=[0, 1]), out=out), TypeError,
     "softmax: x is a masked array; its data and mask=~x.mask are allowed"),
    (lambda out: libsoftmax.softmax(np.zeros((1,) * 17), out=out), ValueError, "softmax: x has 17 dimensions; 0 to 16 are allowed"),
    (lambda out: libsoftmax.softmax(X, out=[0.0]), TypeError, "softmax: out is a list; a NumPy array or one that has __dlpack__ is required"),
    (lambda out: libsoftmax.softmax(X, out=out[:1]), ValueError, "softmax: out has shape (1, 3); (2, 3), the shape of x, is required"),
    (lambda out: libsoftmax.softmax(X, out=out.astype(float)), TypeError, "softmax: out is float64; float32 is allowed beside this x"),
    (lambda out: libsoftmax.softmax(X, out=np.broadcast_to(out[:1], (2, 3))), ValueError, "softmax: out is read-only; a writable array is required"),
    (lambda out: libsoftmax.softmax(out[:, :2], out=out[:, 1:]), ValueError, "softmax: out overlaps x"),
    (softmax(axis=2), ValueError, "softmax: axis is 2; x has 2 dimensions, so -2 to 1 are allowed"),
    (softmax(axis="a"), TypeError, "softmax: axis is 'a'; an int, a tuple of ints or None is allowed"),
    (softmax(dtype="float64"), TypeError, "softmax: out is float32 and dtype float64; the same is required"),
    (lambda out: libsoftmax.softmax(X, dtype="float64"), TypeError, "softmax: dtype is float64; float32 is allowed beside this x"),
    (softmax(dtype="int8"), TypeError, "softmax: dtype is int8; float32, float64, float16 or bfloat16 is allowed"),
    (softmax(dtype=object()), TypeError, "softmax: dtype is <object"),
    (softmax(scale="1"), TypeError, "softmax: scale is '1'; a number is allowed"),
    (softmax(scale=np.inf), ValueError, "softmax: scale is inf; "),
    (softmax(softcap=-1), ValueError, "softmax: softcap is -1; "),
    (softmax(bias=np.zeros(4, np.float32)), ValueError, "softmax: bias has shape (4); what broadcasts to (2, 3), the shape of x, is required"),
    (softmax(bias=np.zeros(3)), TypeError, "softmax: bias is float64; "),
    (softmax(mask=np.zeros(3)), TypeError, "softmax: mask is float64; uint8 or bool is allowed"),
    (softmax(valid_lengths=[1.0, 2.0]), TypeError, "softmax: valid_lengths is float64; int32 or int64 is allowed"),
    (softmax(causal_offset=1.5), TypeError, "softmax: causal_offset is 1.5; an int is allowed"),
    (softmax(causal=True, axis=0), ValueError, "softmax: causal is 1; axis is 0, and the last, 1, is required"),
    (softmax(causal=np.zeros(2)), TypeError, "softmax: causal is array([0., 0.]); True or False is allowed"),
    (softmax(empty_rows="no"), ValueError, "softmax: empty_rows is 'no'; 'nan' or 'zero' is allowed"),
    (softmax(empty_rows=0), TypeError, "softmax: empty_rows is 0; 'nan' or 'zero' is allowed"),
    (softmax(threads=-1), ValueError, "softmax: threads is -1; "),
    (softmax(threads=2**40), ValueError, "softmax: threads is 1099511627776; a 32-bit int is allowed"),
    (softmax(isa="sse"), ValueError, "softmax: isa is \"sse\"; "),
    (softmax(isa=7), TypeError, "softmax: isa is 7; a str is allowed"),
    (softmax(stream="a"), TypeError, "softmax: stream is 'a'; an int or a CUDA stream is allowed"),
    (lambda out: libsoftmax.logsumexp(X, b=X), TypeError, "logsumexp: b is given; it is not supported: bias=log(b) is the same"),
    (lambda out: libsoftmax.logsumexp(X, return_sign=True), TypeError, "logsumexp: return_sign is True; it is not supported"),
    (lambda out: libsoftmax.softmax(X, b=X), TypeError, "softmax() has no argument 'b'"),
    (lambda out: libsoftmax.softmax_backward(X, X[:, :2], out=out), ValueError, "softmax_backward: dy has shape (2, 2); (2, 3), the shape of y, is required"),
    (lambda out: libsoftmax.softmax_backward(X, X.astype(float), out=out), TypeError, "softmax_backward: dy is float64; "),
    (loss((0, 3)), ValueError, "cross_entropy: targets holds 3 in row 1; 0 to 2 or ignore_index (-100) is allowed"),
    (loss((0, -1)), ValueError, "cross_entropy: targets holds -1 in row 1"),
    (loss((0, 1, 2)), ValueError, "cross_entropy: targets has shape (3); (2), the shape of logits without axis 1, is required"),
    (loss((0.5, 1.5)), TypeError, "cross_entropy: targets is float64; float32, float16, bfloat16, int32 or int64 is allowed"),
    (loss(np.float32([0.5, 1.5])), ValueError, "cross_entropy: targets has shape (2); (2, 3), "),
    (loss(label_smoothing=2), ValueError, "cross_entropy: label_smoothing is 2; 0 to 1 is allowed"),
    (loss(reduction="avg"), ValueError, "cross_entropy: reduction is 'avg'; 'none', 'sum' or 'mean' is allowed"),
    (loss(class_weights=np.zeros(4, np.float32)), ValueError, "cross_entropy: class_weights has shape (4); (3), the length of logits's axis, is required"),
    (loss(ignore_index=2**64), ValueError, "cross_entropy: ignore_index is 18446744073709551616; a 64-bit int is allowed"),
    (loss(targets_gradient=True), (ValueError, TypeError), "cross_entropy: targets_gradient"),
    (loss(scale=2.0), TypeError, "cross_entropy() has no argument 'scale'"),
    (loss(device_status=np.zeros(1, np.int64)), ValueError, "cross_entropy: device_status must be one int64 on the CUDA device"),
    (lambda out: libsoftmax.cross_entropy(X, 0, axis=5), ValueError, "cross_entropy: axis is 5; logits has 2 dimensions, so -2 to 1 are allowed"),
    (lambda out: libsoftmax.set_cache_limit(-1), ValueError, "set_cache_limit: limit_bytes is -1; a number of bytes, 0 or more, is allowed"),
]


@pytest.mark.parametrize("call,error,words", CASES, ids=[words for _, _, words in CASES])
def test_words(call, error, words):
    out = np.full((2, 3), 9, np.float32)
    with pytest.raises(error) as raised:
        call(out)
    assert str(raised.value).startswith(words)
    assert (out == 9).all()
