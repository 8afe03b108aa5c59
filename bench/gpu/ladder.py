"""Tables of the library's kernels against each other: the ladder's rungs, and axes that are not the last."""
import torch

import exactness
import rivals
from timing import in_turns

RUNGS = ["three_pass", "generic", "online", "warp", "block", "cluster", "split"]
WIDTHS = [512, 4096, 32768, 262144]
AXES = [((8192, 8192), 0), ((1, 3072, 1024), 1), ((64, 1000, 2000), 1), ((4096, 64, 512), 1), ((16, 16384, 512), 1)]


def rungs(bench):
    """Every kernel that can run the width: its share of a copy, the step from the one before it, from the first, error and hash."""
    bench.lines.append("\n## The ladder: softmax by every kernel\n")
    bench.lines.append("| type | columns | kernel | % of a copy | times the last | times the first | largest error, ULP | hash of two rows |\n"
                       "|---|---:|---|---:|---:|---:|---:|---|")
    for dtype in bench.types[:2]:
        for columns in WIDTHS:
            x, rows = bench.inputs(dtype, columns, 1 << 29)
            y = bench.matrix(1, dtype, rows, columns)
            calls = {kernel: bench.library.call("softmax", [x, y], kernel=kernel) for kernel in RUNGS}
            calls = {kernel: call for kernel, call in calls.items() if call}
            times = in_turns({"copy": lambda: y.copy_(x), **calls}, 7)  # some are slow
            few = min(rows, 16)
            exact = exactness.softmax_exact(x[:few])
            last = first = None
            for kernel, call in calls.items():
                bench.poisoned(y, call)
                seconds = times[kernel][0]
                error, digest = exactness.ulps(y[:few], exact), exactness.hash_of(y[:2])
                share = times["copy"][0] / seconds
                steps = [f"{(before or seconds) / seconds:.2f}" for before in (last, first)]
                bench.say(f"| {rivals.name_of(dtype)} | {columns} | {kernel} | {100 * share:.1f} | {' | '.join(steps)} | {error:.3g} | {digest} |")
                bench.record("ladder", "softmax", rivals.name_of(dtype), rows, columns, kernel, *times[kernel], 2 * x.nbytes, share, f"{error:.4g}", digest)
                last, first = seconds, first or seconds


def axes(bench):
    """Softmax along an axis that is not the last, beside the same number of columns along the last."""
    bench.lines.append("\n## Axes that are not the last: % of a copy\n")
    bench.lines.append("| type | shape | axis | libsoftmax | the same rows along the last axis | PyTorch |\n|---|---|---:|---:|---:|---:|")
    for dtype in bench.types[:2]:
        for shape, axis in AXES:
            count, columns = torch.Size(shape).numel(), shape[axis]
            x, y = (bench.memory[i].view(dtype)[:count] for i in (0, 1))
            x.copy_(bench.scores[:count])
            a, b, rows, results = x.view(shape), y.view(shape), x.view(-1, columns), y.view(-1, columns)
            candidates = {"copy": lambda: y.copy_(x), "axis": bench.library.call("softmax", [a, b], axis=axis),
                          "last": bench.library.call("softmax", [rows, results]), "PyTorch": lambda: torch.softmax(a, axis, out=b)}
            times = in_turns(candidates, bench.rounds)
            shares = {who: times["copy"][0] / seconds for who, (seconds, _) in times.items()}
            bench.say(f"| {rivals.name_of(dtype)} | {shape} | {axis} | " + " | ".join(f"{100 * shares[who]:.1f}" for who in ("axis", "last", "PyTorch")) + " |")
            for who in ("axis", "last", "PyTorch"):
                bench.record("axes", f"softmax {shape} axis {axis}", rivals.name_of(dtype), count // columns, columns, who, *times[who], 2 * x.nbytes, shares[who])
