"""The core set: what `make bench` times, and the bar that the library sets itself for it."""
import dataclasses

from work import Row

COMPILED = {"softmax": [(4096, 1024)], "cross_entropy": [(512, 32000)]}  # also with torch.compile, which takes seconds each
FEW = ("onnxruntime", "onednn", "sleef", "gcc", "numpy", "torch")
OWN = ("none",)  # no rival: the library beside itself
LAST_AXIS = Row("softmax", "float32", (16384, 1024, 1), "stream")


@dataclasses.dataclass
class Bar:
    """What must hold of rows: times the best rival that does not take fresh memory, and what is aimed at: a share of the ceiling."""
    title: str
    rows: list
    must: float = None
    aim_share: float = None
    aim: float = None
    beside: Row = None  # not slower than this row by more than `within`
    within: float = None
    fresh: float = None  # times PyTorch as users call it
    isa: tuple = None  # (instruction set, its least share of the library's own choice)
    alike: float = None  # all rows within this of each other


def stream(operation, shapes, threads=1, type_name="float32", **more):
    def extra(shape):
        return ("torch.compile",) if (type_name, threads) == ("float32", 1) and shape in COMPILED.get(operation, ()) else ()
    return [Row(operation, type_name, shape + (1,), "stream", threads, extra=extra(shape), **more) for shape in shapes]


def cache(operation, shapes, type_name="float32", **more):
    return [Row(operation, type_name, shape + (1,), "cache", **more) for shape in shapes]


MEDIUM = [(16384, 256), (4096, 1024), (1024, 4096), (131, 32000)]
LONG = [(33, 128256), (4, 1 << 20)]
LOSSES = [(512, 32000), (128, 128256)]
WIDTHS = [(64, columns) for columns in range(1020, 1031)]
PLAIN = {"stream": stream("softmax", [(4096, 1024)])[0], "cache": cache("softmax", [(8, 4096)], isas=("avx2",))[0]}


def bars():
    made = []
    for threads, must in ((1, (1.3, 1.15, 1.0)), (2, (1.12, 1.12, 1.12))):
        share = 0.75 if threads == 1 else 0.8
        where = f"float32 softmax, out of cache, {threads} thread{'s' if threads > 1 else ''}"
        made.append(Bar(f"{where}, 256 to 32,000 columns", stream("softmax", MEDIUM, threads), must[0], share))
        made.append(Bar(f"{where}, 128,256 and 2^20 columns", stream("softmax", LONG, threads), must[1], share))
        made.append(Bar(f"{where}, 64 columns", stream("softmax", [(65536, 64)], threads), 1.0, 0.65))
    made.append(Bar("one row of 2^24, 2 threads", stream("softmax", [(1, 1 << 24)], 2), 1.7, 0.6))
    inner = cache("softmax", [(64, 1024), (8, 4096), (1, 32768)], isas=("avx2",))
    made.append(Bar("float32 in cache, 1 thread", inner, 1.05, aim=1.3, isa=("avx2", 0.45)))
    made.append(Bar("in cache, 64x64 and 1024x8", cache("softmax", [(64, 64), (1024, 8)], isas=("avx2",)), 1.2, aim=2,
                    isa=("avx2", 0.45)))
    for operation in ("log_softmax", "masked_softmax"):
        made.append(Bar(f"{operation}, out of cache", stream(operation, [(4096, 1024)]), 1.25, beside=PLAIN["stream"], within=0.15))
        made.append(Bar(f"{operation}, in cache", cache(operation, [(8, 4096)]), 1.25, beside=PLAIN["cache"], within=0.15))
    for threads in (1, 2):
        made.append(Bar(f"softmax backward, out of cache, {threads}T", stream("softmax_backward", [(4096, 1024)], threads), 1.0, 0.85))
    made.append(Bar("log_softmax backward, out of cache", stream("log_softmax_backward", [(4096, 1024)]), 1.0, 0.85))
    made.append(Bar("cross-entropy with gradient", stream("cross_entropy", LOSSES), 1.8, 0.7, fresh=8))
    made.append(Bar("bfloat16 softmax, out of cache, 1 thread", stream("softmax", MEDIUM[:3], type_name="bfloat16"), 1.15, aim=1.5))
    made.append(Bar("axis 1 of (64,1024,256)", [Row("softmax", "float32", (64, 1024, 256), "stream")], 1.5, beside=LAST_AXIS, within=0.35))
    made.append(Bar("widths 1020 to 1030, in cache", cache("softmax", WIDTHS, rivals=OWN), alike=0.10))
    made.append(Bar("scores times 1 and times 1000, and results near the smallest normal, in cache",
                    [Row("softmax", "float32", (8, 4096, 1), "cache", 1, values, OWN) for values in ("normal", "times1000", "tiny")],
                    alike=0.10))
    return made


def core_rows():
    """Every row of the bar once, and what else belongs into a published table."""
    rows = [row for bar in bars() for row in bar.rows] + [LAST_AXIS]
    rows += cache("softmax", [(count, 1024) for count in (1, 4, 16, 256, 1024, 4096)], rivals=FEW)  # time against rows
    rows += cache("logsumexp", [(8, 4096)]) + stream("logsumexp", [(4096, 1024)])
    rows += cache("softmax", [(8, 4096)], "bfloat16") + cache("softmax", [(8, 4096)], "float16") + cache("softmax", [(8, 4096)], "float64")
    rows += stream("softmax", [(4096, 1024)], type_name="float16") + stream("softmax", [(4096, 1024)], type_name="float64")
    rows += [Row("softmax", "float32", (8, 4096, 1), "cold"), Row("softmax", "float32", (1, 64, 1), "cold")]
    return list(dict.fromkeys(rows))
