"""How far results are from exact ones, in units in the last place, on a sample of a row's piece; judged in NumPy's longdouble."""
import numpy

from work import from_type

SAMPLE = 1 << 16
# bits of the significand, exponent of the smallest normal number
FORMATS = {"float32": (24, -126), "float64": (53, -1022), "float16": (11, -14), "bfloat16": (8, -126)}
Wide = numpy.longdouble


def units(values, type_name):
    bits, smallest = FORMATS[type_name]
    exponent = numpy.maximum(numpy.frexp(values)[1] - 1, smallest)
    return numpy.ldexp(Wide(1), exponent - (bits - 1))


def sampled_rows(row):
    """Indices (outer, inner) of the rows that are judged."""
    count = max(1, min(SAMPLE // max(1, row.shape[1]), row.shape[0]))
    places = numpy.linspace(0, row.shape[0] * row.shape[2] - 1, count).astype(int)
    return places // row.shape[2], places % row.shape[2]


def rows_of(array, row, places):
    """The sampled rows as a matrix (rows, columns) of the type as it is held."""
    return array.reshape(row.shape)[places[0], :, places[1]]


class Judge:
    """The exact results of one piece, computed once for all contestants."""

    def __init__(self, row, piece):
        self.row, self.places = row, sampled_rows(row)
        x = from_type(rows_of(piece.x, row, self.places), row.type)
        dy = None if piece.dy is None else from_type(rows_of(piece.dy, row, self.places), row.type).astype(Wide)
        mask = None if piece.mask is None else rows_of(piece.mask, row, self.places)
        self.columns = slice(None)
        if row.shape[1] > 2 * SAMPLE:  # one long row: sums of all columns in double, results at some
            self.columns = numpy.linspace(0, row.shape[1] - 1, SAMPLE).astype(int)
            self.exact, self.magnitude = self.long_row(x.astype(numpy.float64), dy)
        else:
            self.exact, self.magnitude = self.compute(x.astype(Wide), dy, mask, piece)

    def long_row(self, x, dy):
        operation, at = self.row.operation, self.columns
        m = x.max(1, keepdims=True)
        if operation in ("softmax", "log_softmax", "cross_entropy", "logsumexp"):
            total = numpy.exp(x - m).sum(1, keepdims=True).astype(Wide)
            z = x[:, at].astype(Wide) - m
            if operation == "softmax":
                y = numpy.exp(z) / total
                return y, y
            if operation == "log_softmax":
                y = z - numpy.log(total)
                return y, y
            if operation == "logsumexp":
                return self.largest_part(m, total)
        raise NotImplementedError

    @staticmethod
    def largest_part(m, total):
        l = m + numpy.log(total)
        return l[:, 0], numpy.maximum(numpy.maximum(abs(m), abs(l - m)), abs(l))[:, 0]

    def compute(self, x, dy, mask, piece):
        operation = self.row.operation
        if operation == "softmax_backward":
            return x * (dy - (dy * x).sum(1, keepdims=True)), abs(x) * (abs(dy) + abs(dy * x).sum(1, keepdims=True))
        if operation == "log_softmax_backward":
            return dy - numpy.exp(x) * dy.sum(1, keepdims=True), abs(dy) + numpy.exp(x) * abs(dy).sum(1, keepdims=True)
        if mask is not None:
            x = numpy.where(mask != 0, x, -Wide(numpy.inf))
        m = x.max(1, keepdims=True)
        terms = numpy.exp(x - m)
        total = terms.sum(1, keepdims=True)
        if operation == "logsumexp":
            return self.largest_part(m, total)
        if operation == "log_softmax":
            # The maximum's own term is left out, so that a probability next to 1 keeps its logarithm.
            terms[numpy.arange(len(x)), x.argmax(1)] = 0
            y = (x - m) - numpy.log1p(terms.sum(1, keepdims=True))
            return y, y
        y = terms / total
        if operation == "cross_entropy":
            y[numpy.arange(len(y)), piece.targets[self.places[0]]] -= 1
            y /= self.row.shape[0]
        return y, y

    def error(self, result):
        """The largest error, in units of the exact result's (logsumexp, backward: the magnitude's) last place."""
        row = self.row
        if row.operation == "logsumexp":
            got = numpy.asarray(result).reshape(row.shape[0], row.shape[2])[self.places]
        else:
            got = rows_of(numpy.asarray(result), row, self.places)[:, self.columns]
        got = from_type(got, row.result_type).astype(Wide)
        kept = abs(self.magnitude) >= (2.0**FORMATS[row.type][1] if row.type != "float16" else 0)
        with numpy.errstate(invalid="ignore", over="ignore"):
            off = (abs(got - self.exact) / units(self.magnitude, row.result_type))[kept]
        if not off.size:
            return 0.0
        return float("inf") if not numpy.isfinite(off).all() else float(off.max())
