"""libsoftmax.triton on a GPU: the share of a device copy of the same bytes, by width, type and operation; with --sweep, which size of a
program is the fastest at each width.

    python bench/gpu/triton_rows.py            Markdown table (make bench-gpu has it too)
    python bench/gpu/triton_rows.py --sweep    the best few (rows, pieces, piece; tiles, lanes; or depth, lanes; and warps) at each width

Medians of CUDA events with a cold L2 (triton.testing.do_bench). The copy is measured before and after each kernel; that of the loss moves as many bytes as its targets
and losses too.
"""

import argparse
import itertools
import multiprocessing
import statistics

import torch
import triton

from libsoftmax import triton as ours
from libsoftmax.triton import kernels

ELEMENTS = 2**27
BLOCK_WIDTHS = (8, 16, 32, 64, 100, 128, 256, 300, 512, 1000, 1024, 2048, 4096, 5000, 8192, 10000, 14000, 16384)
WIDE_WIDTHS = (20000, 32768, 65536, 131072, 262144)
TYPES = (torch.float32, torch.bfloat16)


def median(work):
    return triton.testing.do_bench(work, warmup=8, rep=24, return_mode="median")


def matrix(columns, dtype):
    return torch.randn(ELEMENTS // columns // 16 * 16, columns, device="cuda", dtype=dtype)


def share(work, streams):
    """Of a copy that moves the same bytes: `streams` is a list of (source, destination)."""

    def copy():
        for source, destination in streams:
            destination.copy_(source)

    before, time, after = median(copy), median(work), median(copy)
    return (before + after) / 2 / time


def run_once(work):
    """In a process of its own; the measuring one finds the compiled kernels in Triton's cache."""
    columns, dtype = work
    x = matrix(columns, dtype)
    targets = torch.zeros(x.shape[:1], dtype=torch.int64, device="cuda")
    ours.softmax(x)
    ours.softmax_backward(x, x)
    ours.cross_entropy(x, targets, reduction="none")


def in_processes(function, work, processes=12):
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        pool.map(function, work, chunksize=1)


def table(say=print, widths=(*BLOCK_WIDTHS, *WIDE_WIDTHS)):
    in_processes(run_once, [(columns, dtype) for columns in widths for dtype in TYPES])
    say("\n## libsoftmax.triton: % of a copy of the same bytes\n")
    say("| columns | " + " | ".join(f"{what} {str(t)[6:]}" for what in ("softmax", "backward", "cross-entropy") for t in TYPES) + " |\n|---:|" + "---:|" * 6)
    for columns in widths:
        cells = []
        for dtype in TYPES:
            x = matrix(columns, dtype)
            y = torch.empty_like(x)
            half = y.view(-1)[: y.numel() // 2]
            targets = torch.randint(columns, x.shape[:1], device="cuda")
            beside = torch.empty_like(targets)[: (targets.nbytes + 4 * len(targets)) // 16]
            softmax = share(lambda: ours.softmax(x), [(x, y)])  # noqa: B023
            loss = share(lambda: ours.cross_entropy(x, targets, reduction="none"), [(x, y), (targets[: len(beside)], beside)])  # noqa: B023
            # Two inputs and one output: a copy and a half.
            backward = share(lambda: ours.softmax_backward(x, y), [(x, y), (half, y.view(-1)[half.numel():])])  # noqa: B023
            cells.append((softmax, backward, loss))
        say(f"| {columns} | " + " | ".join(f"{100 * cells[t][what]:.0f}" for what in range(3) for t in range(2)) + " |")


def candidates(operation, columns, dtype):
    padded = triton.next_power_of_2(columns)
    if columns <= ours.launch.ROWS_COLUMNS:
        for piece, warps, each in itertools.product((8, 16, 32, 64, 128, 256), (1, 2, 4), (16, 32, 64)):
            rows = 32 * warps * each // padded
            if padded // 32 <= piece <= padded and rows >= warps:
                yield {"ROWS": rows, "PIECES": padded // piece, "PIECE": piece, "num_warps": warps}
    elif columns <= ours.launch.BLOCK_COLUMNS:
        for lanes, warps in ((512, 2), (1024, 4), (1024, 8), (2048, 4), (2048, 8), (2048, 16), (4096, 16)):
            tiles = triton.cdiv(columns, lanes)
            if tiles * lanes // (32 * warps) <= 72:
                yield {"TILES": tiles, "LANES": lanes, "num_warps": warps}
    elif operation == "softmax_backward":
        for lanes, warps in itertools.product((4096, 8192, 16384), (8, 16, 32)):
            yield {"LANES": lanes, "num_warps": warps}
    else:
        for depth, lanes, warps in itertools.product((1, 2, 4), (2048, 4096, 8192), (8, 16, 32)):
            if 8 <= depth * lanes // (32 * warps) <= 32:
                yield {"DEPTH": depth, "LANES": lanes, "num_warps": warps}


def launch(operation, x, y, options):
    """The operation of x into y, by programs of the size that options say."""
    rows, columns = x.shape
    matrices, first, last = (x, y), (x, y), ()
    if operation == "cross_entropy":
        zeros = torch.zeros(rows + 1, device="cuda")
        first, last = (x, zeros[:rows].long(), zeros[1:], y, None), (-100,)
    elif operation == "softmax_backward":
        matrices = first = (x, x, y)
    sizes, step, _ = ours.launch._in_steps(matrices)
    if "ROWS" in options:
        kernel, grid, sizes, options = f"{operation}_rows", triton.cdiv(rows, options["ROWS"]), (rows, *sizes), {**options, "STEP": step}
    elif "TILES" in options:
        kernel, grid, options = f"{operation}_block", rows, {**options, "STEP": step}
    else:
        kernel, grid, sizes = f"{operation}_wide", rows, (columns, *(s for m in matrices for s in m.stride()))
    return lambda: getattr(kernels, kernel)[(grid,)](*first, *sizes, *last, **options)


def compile_one(work):
    operation, columns, dtype, options = work
    x = torch.zeros(16, columns, device="cuda", dtype=dtype)
    launch(operation, x, torch.empty_like(x), options)()


OPERATIONS = ("softmax", "softmax_backward", "cross_entropy")


def sweep(widths, types=TYPES, operations=OPERATIONS):
    in_processes(compile_one, [(operation, columns, dtype, options) for operation in operations for columns in widths for dtype in types
                               for options in candidates(operation, columns, dtype)])
    for operation, columns, dtype in itertools.product(operations, widths, types):
        x = matrix(columns, dtype)
        y = torch.empty_like(x)
        copy = statistics.median(median(lambda: y.copy_(x)) for _ in range(3))  # noqa: B023
        found = [(copy / median(launch(operation, x, y, o)), tuple(o.values())) for o in candidates(operation, columns, dtype)]
        found.sort(key=lambda pair: -pair[0])
        print(operation, columns, str(dtype)[6:], *(f"{100 * part:.0f}%{o}" for part, o in found[:6]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--widths", type=lambda text: [int(part) for part in text.split(",")], default=[*BLOCK_WIDTHS, *WIDE_WIDTHS])
    parser.add_argument("--types", type=lambda text: [getattr(torch, part) for part in text.split(",")], default=TYPES)
    parser.add_argument("--operations", type=lambda text: text.split(","), default=OPERATIONS)
    arguments = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}")
    sweep(arguments.widths, arguments.types, arguments.operations) if arguments.sweep else table(widths=arguments.widths)
