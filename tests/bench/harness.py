"""The benchmark's harness computes what it times: right results, the same bits however they are timed; its judge rejects fakes; its
command names what it refuses. No time decides anything here."""
import os
import subprocess
import sys

import numpy

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "bench", "cpu"))

from contestant import CParts, CRun, PythonRun, Unsupported  # noqa: E402
from exact import Judge  # noqa: E402
from work import DTYPES, OPERATIONS, Arena, Row, c_works  # noqa: E402
import rival_numpy  # noqa: E402
from worker import Pace  # noqa: E402

STOCK = 1 << 16  # random values; the harness takes more
FOLDER = os.path.join(os.environ["SOFTMAX_BUILD"], "bench")
checks = failures = 0


def check(good, words):
    global checks, failures
    checks += 1
    if not good:
        failures += 1
        print("FAILED:", words)


def contestant(parts, name):
    return next(made for made in parts.ceilings() + parts.libsoftmax(["portable"]) if made.name == name)


def computed(parts, row, name, arena, poison=0xff):
    """The bytes of the result's first piece, after some timed calls."""
    pieces = arena.pieces(row)
    for piece in pieces:
        piece.y.reshape(-1).view(numpy.uint8)[:] = poison
    run = contestant(parts, name).prepare(row, pieces)
    taken = run.time(0, 2 * len(pieces) + 1)
    check(taken > 0, f"{row.title}: {name} took {taken} s")
    return pieces, pieces[0].y


def bound(row):
    """docs/numerics.md's."""
    if row.type in ("float16", "bfloat16") and row.operation != "logsumexp":
        return 0.51
    return {"softmax": 2.5, "masked_softmax": 2.5, "cross_entropy": 3, "logsumexp": 1}.get(row.operation, 2)


def operations(parts):
    arena = Arena(STOCK)
    shapes = [(5, 37, 1), (2, 1500, 1), (3, 33, 7)]
    for operation in OPERATIONS:
        for type_name in DTYPES:
            for shape in shapes:
                if operation == "cross_entropy" and shape[2] > 1:
                    continue
                row = Row(operation, type_name, shape)
                pieces, result = computed(parts, row, "libsoftmax", arena)
                error = Judge(row, pieces[0]).error(result)
                if not (operation == "logsumexp" and type_name in ("float16", "bfloat16")):  # 16-bit terms: not float32's bound
                    check(error <= bound(row), f"{row.title}: {error} ULP")
                bits = result.tobytes()
                for other, name in ((Row(operation, type_name, shape, threads=2), "libsoftmax"),
                                    (Row(operation, type_name, shape, "cold", isas=("portable",)), "libsoftmax portable")):
                    arena = Arena(STOCK)  # the same random targets
                    _, again = computed(parts, other, name, arena, 0)
                    check(again.tobytes() == bits, f"{other.title}: {name} gives other bits than one thread in cache")
                arena = Arena(STOCK)


def ceilings(parts):
    arena = Arena(STOCK)
    for threads in (1, 2):
        for shape in ((3, 41, 1), (7, 9001, 1)):
            row = Row("softmax", "float32", shape, threads=threads)
            for name in ("memcpy", "plain copy", "non-temporal copy"):
                pieces, result = computed(parts, row, name, arena)
                check(result.tobytes() == pieces[0].x.tobytes(), f"{row.title}: {name} does not copy")
            row = Row("softmax_backward", "float32", shape, threads=threads)
            pieces, result = computed(parts, row, "three streams", arena)
            expected = pieces[0].x.view(numpy.uint32) ^ pieces[0].dy.view(numpy.uint32)
            check((result.view(numpy.uint32) == expected).all(), f"{row.title}: three streams: y is not x xor dy")


def judge_rejects():
    arena = Arena(STOCK)
    for operation in OPERATIONS:
        row = Row(operation, "float32", (6, 50, 1))
        piece = arena.pieces(row)[0]
        judge = Judge(row, piece)
        shape = piece.y.shape
        for name, fake in (("zeros", numpy.zeros(shape, numpy.float32)), ("1/n", numpy.full(shape, 1 / 50, numpy.float32)),
                           ("untouched memory", numpy.full(shape, numpy.nan, numpy.float32)), ("its input", piece.x.reshape(-1)[:piece.y.size])):
            check(judge.error(fake) > 1e6, f"{operation}: the judge takes {name}: {judge.error(fake)} ULP")


def numpy_rival():
    arena = Arena(STOCK)
    for operation in OPERATIONS:
        row = Row(operation, "float32", (6, 50, 1))
        pieces = arena.pieces(row)
        run = rival_numpy.numpy_contestants()[0].prepare(row, pieces)
        check(Judge(row, pieces[0]).error(run.result(pieces)) < 500, f"NumPy's {operation} is off")


def refusals(parts):
    row = Row("cross_entropy", "float32", (2, 3, 5))
    pieces = Arena(STOCK).pieces(Row("softmax", "float32", (2, 3, 5)))
    try:
        CRun(parts.clock, parts.libsoftmax()[0].prepare(row, pieces).function, c_works(row, pieces)).time(0, 1)
        check(False, "a refused call was timed")
    except Unsupported:
        check(True, "")


class CountedTiming:
    """Turns without work."""

    def __init__(self):
        self.taken, self.calls = [], 0

    def turn(self, first, threads):
        self.calls += 1
        self.taken.append(self.calls)
        return first + 1


def pace(parts):
    """Turns in a slow phase are taken again while there is time for it, and said to be slow when there is none."""
    check(0 < parts.clock.bench_pace() < 0.1, "the pace is no time")
    for took, kept, slow in (([1, 1, 1], 1, 0), ([1, 1, 1.2, 1, 1], 2, 0), ([1, 1.2, 1.2, 1, 1.04], 1, 0)):
        given, timing = iter(took), CountedTiming()
        steady = Pace(lambda given=given: next(given))
        check(steady.turn(timing, 5, 1) == 5 + kept, f"pace {took}: another place")
        check(timing.taken == [kept] and steady.slow_turns == slow and steady.turns == 1, f"pace {took}: kept turns {timing.taken}")
    given, timing = iter([1, 1.2, 1.2]), CountedTiming()
    hurried = Pace(lambda: next(given), wait=-1)
    hurried.turn(timing, 0, 1)
    check(timing.taken == [1] and hurried.slow_turns == 1, "a slow turn that there is no time for is not kept or not told")


def turns():
    """A Python contestant is called on every piece in turn, as often as asked."""
    seen = []
    run = PythonRun([lambda i=i: seen.append(i) for i in range(3)])
    run.time(1, 5)
    check(seen == [1, 2, 0, 1, 2], f"turns {seen}")


def command(*arguments):
    return subprocess.run([sys.executable, "-B", os.path.join(SOURCE, "bench", "cpu", "bench.py"), "--folder", FOLDER, *arguments],
                          capture_output=True, text=True, timeout=120, check=False)


def commands():
    shown = command("--op", "log_softmax,softmax", "--shape", "4x100,2x30x5@1", "--rivals", "none", "--rounds", "1")
    check(shown.returncode == 0 and shown.stdout.count("| libsoftmax | caller |") == 4, f"bench.py: {shown.stdout[-500:]}{shown.stderr[-500:]}")
    shown = command("--shape", "4x100", "--rivals", "nobody")
    check(shown.returncode != 0 and "rival nobody: allowed are jax" in shown.stderr, f"an unknown rival: {shown.stderr[-200:]}")
    shown = command("--op", "softmin")
    check(shown.returncode != 0 and "operation softmin: allowed are softmax" in shown.stderr, f"an unknown operation: {shown.stderr[-200:]}")
    shown = command("--shape", "4096")
    check(shown.returncode != 0 and "shape 4096: ROWSxCOLUMNS" in shown.stderr, f"a wrong shape: {shown.stderr[-200:]}")


def main():
    parts = CParts(FOLDER)
    operations(parts)
    ceilings(parts)
    judge_rejects()
    numpy_rival()
    refusals(parts)
    turns()
    pace(parts)
    commands()
    print(f"{checks} checks, {failures} failures")
    sys.exit(bool(failures))


main()
