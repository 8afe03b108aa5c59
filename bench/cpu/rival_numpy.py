"""NumPy with results and temporaries in memory that it is given, and SciPy, which allocates."""
import numpy

from contestant import CALLER, LIBRARY, Contestant, PythonRun, Unsupported


def lines(row, piece):
    """The usual lines, with out= wherever NumPy takes it."""
    x, y, dy = piece.x, piece.y, piece.dy
    small = numpy.empty(x.shape[:1] + (1,) + x.shape[2:], x.dtype)
    total = numpy.empty_like(small)
    scratch = lines.scratch(x)

    def softmax():
        numpy.max(x, axis=1, keepdims=True, out=small)
        numpy.subtract(x, small, out=y)
        numpy.exp(y, out=y)
        numpy.sum(y, axis=1, keepdims=True, out=total)
        numpy.divide(y, total, out=y)

    def masked_softmax():
        allowed = piece.mask.view(bool)
        numpy.max(x, axis=1, keepdims=True, out=small, where=allowed, initial=-numpy.inf)
        numpy.subtract(x, small, out=y)
        numpy.exp(y, out=y)
        numpy.multiply(y, piece.mask, out=y)
        numpy.sum(y, axis=1, keepdims=True, out=total)
        numpy.divide(y, total, out=y)

    def log_softmax():
        numpy.max(x, axis=1, keepdims=True, out=small)
        numpy.subtract(x, small, out=y)
        numpy.exp(y, out=scratch)
        numpy.sum(scratch, axis=1, keepdims=True, out=total)
        numpy.log(total, out=total)
        numpy.subtract(y, total, out=y)

    def logsumexp():
        numpy.max(x, axis=1, keepdims=True, out=small)
        numpy.subtract(x, small, out=scratch)
        numpy.exp(scratch, out=scratch)
        numpy.sum(scratch, axis=1, keepdims=True, out=total)
        numpy.log(total, out=total)
        numpy.add(small.reshape(y.shape), total.reshape(y.shape), out=y)

    def softmax_backward():
        numpy.multiply(dy, x, out=y)
        numpy.sum(y, axis=1, keepdims=True, out=total)
        numpy.subtract(dy, total, out=y)
        numpy.multiply(y, x, out=y)

    def log_softmax_backward():
        numpy.sum(dy, axis=1, keepdims=True, out=total)
        numpy.exp(x, out=y)
        numpy.multiply(y, total, out=y)
        numpy.subtract(dy, y, out=y)

    def cross_entropy():
        places = numpy.arange(x.shape[0])
        softmax()
        piece.loss[0] = (small[:, 0] + numpy.log(total[:, 0]) - x[places, piece.targets]).mean()
        y[places, piece.targets] -= 1
        numpy.divide(y, x.shape[0], out=y)

    return locals()[row.operation]


def scratch(x):
    if scratch.memory.size < x.nbytes:
        scratch.memory = numpy.zeros(x.nbytes, numpy.uint8)
    return scratch.memory[:x.nbytes].view(x.dtype).reshape(x.shape)


scratch.memory = numpy.zeros(0, numpy.uint8)
lines.scratch = scratch


def numpy_contestants():
    def prepare(row, pieces):
        if row.type == "bfloat16" or row.type != row.result_type:
            raise Unsupported("no such type")
        return PythonRun([lines(row, piece) for piece in pieces])
    return [Contestant(f"NumPy {numpy.__version__}", "numpy", CALLER, prepare, lambda row: row.threads == 1)]


def scipy_contestants():
    import scipy
    import scipy.special

    def prepare(row, pieces):
        function = {"softmax": scipy.special.softmax, "log_softmax": scipy.special.log_softmax,
                    "logsumexp": scipy.special.logsumexp}.get(row.operation)
        if function is None or row.type == "bfloat16" or row.type != row.result_type:
            raise Unsupported("no such operation or type")
        return PythonRun([lambda x=piece.x: function(x, axis=1) for piece in pieces], output=lambda given: given)
    return [Contestant(f"SciPy {scipy.__version__}", "scipy", LIBRARY, prepare, lambda row: row.threads == 1)]
