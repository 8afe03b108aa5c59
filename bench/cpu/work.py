"""Pieces of work: an operation over a tensor (outer, columns, inner) along its middle axis, and the memory it runs on."""
import ctypes
import dataclasses

import numpy

OPERATIONS = ["softmax", "log_softmax", "logsumexp", "softmax_backward", "log_softmax_backward", "cross_entropy", "masked_softmax"]
TYPE_NUMBERS = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4}  # softmax_type's
# bfloat16 is held as its bits: NumPy has no such type.
DTYPES = {"float32": numpy.float32, "float64": numpy.float64, "float16": numpy.float16, "bfloat16": numpy.uint16}
MODES = ["cache", "stream", "cold"]
ROTATION_BYTES = 1 << 30
SKEW = 9 * 64  # between arrays, so that they do not sit at the same place of a page


@dataclasses.dataclass(frozen=True)
class Row:
    """One row of the table: what is done, on what, and how it is timed."""
    operation: str
    type: str
    shape: tuple  # (outer, columns, inner)
    mode: str = "cache"
    threads: int = 1
    values: str = "normal"
    rivals: tuple = ()  # their names; () is all but those that take long to prepare (rivals.DEFAULT)
    isas: tuple = ()  # instruction sets of the library that are forced beside its own choice
    extra: tuple = dataclasses.field(default=(), compare=False)  # rivals beside those of DEFAULT

    @property
    def elements(self):
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def backward(self):
        return self.operation.endswith("backward")

    @property
    def shape_text(self):
        outer, columns, inner = self.shape
        return f"{outer}x{columns}" if inner == 1 else f"{outer}x{columns}x{inner}@1"

    @property
    def title(self):
        words = f"{self.operation} {self.type} {self.shape_text} {self.mode} {self.threads}T"
        return words if self.values == "normal" else f"{words} {self.values}"

    @property
    def result_shape(self):
        return (self.shape[0], self.shape[2]) if self.operation == "logsumexp" else self.shape

    @property
    def result_type(self):
        return self.type if self.operation != "logsumexp" or self.type == "float64" else "float32"


class CWork(ctypes.Structure):
    """bench_work of work.h."""
    _fields_ = [("operation", ctypes.c_int32), ("type", ctypes.c_int32)] + \
        [(name, ctypes.c_int64) for name in ("outer", "columns", "inner")] + \
        [(name, ctypes.c_void_p) for name in ("x", "dy", "mask", "targets", "y", "loss")] + \
        [("isa", ctypes.c_char_p), ("threads", ctypes.c_int32), ("reserved", ctypes.c_int32)]


@dataclasses.dataclass
class Piece:
    """The arrays of one call, C order. 2-D (outer, columns) where the axis is last, else 3-D."""
    x: numpy.ndarray
    y: numpy.ndarray
    dy: numpy.ndarray = None
    mask: numpy.ndarray = None
    targets: numpy.ndarray = None
    loss: numpy.ndarray = None


def to_type(values, type_name):
    """float32 values, rounded to the type as it is held."""
    if type_name != "bfloat16":
        return values.astype(DTYPES[type_name])
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def from_type(held, type_name):
    """The values that are held, as float32 or the wider type."""
    if type_name == "bfloat16":
        return (held.astype(numpy.uint32) << 16).view(numpy.float32)
    return held.astype(numpy.float32) if type_name == "float16" else held


class Arena:
    """Memory that lasts: pieces are cut from it for one row of the table after another."""

    def __init__(self, stock=1 << 22, seed=3):
        self.random = numpy.random.default_rng(seed)
        self.normal = self.random.standard_normal(stock).astype(numpy.float32)
        self.memory = numpy.zeros(0, numpy.uint8)
        self.used = 0

    def array(self, shape, dtype):
        size = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        start = self.used + (-(self.memory.ctypes.data + self.used)) % 64
        self.used = start + size + SKEW
        if self.used > self.memory.size:
            raise MemoryError(f"arena of {self.memory.size} bytes is short of {self.used}")
        return self.memory[start:start + size].view(dtype).reshape(shape)

    def reserve(self, size):
        self.used = 0
        if self.memory.size < size:
            self.memory = numpy.empty(0, numpy.uint8)
            self.memory = numpy.empty(size, numpy.uint8)  # NumPy asks for huge pages
            self.memory[::4096] = 1

    def scores(self, row):
        """A stock of values of the row's kind, which pieces repeat from different places on."""
        if row.operation == "softmax_backward":  # the forward's results
            return to_type(abs(self.normal) / row.shape[1], row.type)
        if row.operation == "log_softmax_backward":
            return to_type(-1 - 3 * abs(self.normal), row.type)
        values = 3 * self.normal
        if row.values == "times1000":
            values = 1000 * values
        elif row.values == "tiny":  # most results lie within a few binades of the smallest normal one
            values = self.normal - numpy.float32(82)
            values[:: min(512, row.shape[1])] = 0
        return to_type(values, row.type)

    @staticmethod
    def fill(array, stock, start):
        flat, at = array.reshape(-1), 0
        while at < flat.size:
            start %= stock.size
            part = min(flat.size - at, stock.size - start)
            flat[at:at + part] = stock[start:start + part]
            at, start = at + part, 0

    def pieces(self, row):
        """The row's pieces: one, in cache; as many as make up the rotation out of cache; a few for single cold calls."""
        dtype = DTYPES[row.type]
        full = row.shape if row.shape[2] > 1 else row.shape[:2]
        result = row.result_shape if row.shape[2] > 1 else row.result_shape[:1 if row.operation == "logsumexp" else 2]
        big = row.elements * numpy.dtype(dtype).itemsize
        each = (3 if row.backward else 2) * big + (row.elements if row.operation == "masked_softmax" else 0)
        count = {"cache": 1, "cold": 4}.get(row.mode) or max(2, -(-ROTATION_BYTES // each))
        self.reserve(count * (each + 16 * row.shape[0] + 16 * SKEW) + (1 << 22))
        stock = self.scores(row)
        upstream = to_type(self.normal, row.type) if row.backward else None
        made = []
        for i in range(count):
            piece = Piece(x=self.array(full, dtype), y=self.array(result, DTYPES[row.result_type]))
            self.fill(piece.x, stock, 1021 * 1024 * i)
            if row.backward:
                piece.dy = self.array(full, dtype)
                self.fill(piece.dy, upstream, 1021 * 1024 * i + 512 * 1024)
            if row.operation == "masked_softmax":
                piece.mask = self.array(full, numpy.uint8)
                self.fill(piece.mask, (self.normal > -0.5).astype(numpy.uint8), 1021 * 1024 * i)
            if row.operation == "cross_entropy":
                piece.targets = self.array(row.shape[:1], numpy.int64)
                piece.targets[:] = self.random.integers(0, row.shape[1], row.shape[0])
                piece.loss = self.array((1,), numpy.float64 if row.type == "float64" else numpy.float32)
            made.append(piece)
        return made


def c_works(row, pieces, isa=None):
    """The pieces as an array of bench_work."""
    works = (CWork * len(pieces))()
    for work, piece in zip(works, pieces):
        work.operation, work.type = OPERATIONS.index(row.operation), TYPE_NUMBERS[row.type]
        work.outer, work.columns, work.inner = row.shape
        for name in ("x", "dy", "mask", "targets", "y", "loss"):
            array = getattr(piece, name)
            setattr(work, name, None if array is None else array.ctypes.data)
        work.isa, work.threads = isa, row.threads
    return works
