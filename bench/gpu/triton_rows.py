"""libsoftmax.triton on a GPU: the share of a device copy of the same bytes, by width, type and operation; with --sweep, which size of a
program is the fastest at each width (softmax and cross-entropy).

    python bench/gpu/triton_rows.py            Markdown table (make bench-gpu has it too)
    python bench/gpu/triton_rows.py --sweep    the best few (rows, columns and warps, or depth, lanes and warps) at each width

Medians of CUDA events with a cold L2 (triton.testing.do_bench). The copy is measured before and after each kernel.
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
BLOCK_WIDTHS = (8, 16, 32, 64, 100, 128, 256, 512, 1000, 1024, 2048, 4096, 5000, 8192, 16384)
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
    ours.cross_entropy(x, targets, reduction="sum")


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
            softmax = share(lambda: ours.softmax(x), [(x, y)])  # noqa: B023
            loss = share(lambda: ours.cross_entropy(x, targets, reduction="sum"), [(x, y)])  # noqa: B023
            # Two inputs and one output: a copy and a half.
            backward = share(lambda: ours.softmax_backward(x, y), [(x, y), (half, y.view(-1)[half.numel():])])  # noqa: B023
            cells.append((softmax, backward, loss))
        say(f"| {columns} | " + " | ".join(f"{100 * cells[t][what]:.0f}" for what in range(3) for t in range(2)) + " |")


def candidates(columns):
    if columns <= ours.launch.BLOCK_COLUMNS:
        padded = triton.next_power_of_2(columns)
        for size, warps in itertools.product(sorted({padded, max(padded, 1024), max(padded, 2048)}), (1, 2, 4, 8, 16, 32)):
            if 8 <= size // (32 * warps) <= 64 and size // padded <= 256:
                yield {"ROWS": size // padded, "COLUMNS": padded, "num_warps": warps}
    else:
        for depth, lanes, warps in itertools.product((1, 2, 4), (2048, 4096, 8192), (8, 16, 32)):
            if 8 <= depth * lanes // (32 * warps) <= 32:
                yield {"DEPTH": depth, "LANES": lanes, "num_warps": warps}


def launch(operation, x, y, options):
    """softmax or cross-entropy of x into y, by programs of the size that options say."""
    rows, columns = x.shape
    first, last = (x, y), ()
    if operation == "cross_entropy":
        zeros = torch.zeros(rows + 1, device="cuda")
        first, last = (x, zeros[:rows].long(), zeros[1:], y, zeros[0] + 1), (-100,)
    if "ROWS" in options:
        _, sizes, constants = ours.launch._block(x, y)
        kernel, grid = getattr(kernels, operation + "_block"), (triton.cdiv(rows, options["ROWS"]),)
        return lambda: kernel[grid](*first, *sizes, *last, **{**constants, **options})
    return lambda: getattr(kernels, operation + "_wide")[(rows,)](*first, columns, *x.stride(), *y.stride(), *last, **options)


def compile_one(work):
    operation, columns, dtype, options = work
    x = torch.zeros(16, columns, device="cuda", dtype=dtype)
    launch(operation, x, torch.empty_like(x), options)()


def sweep(widths, types=TYPES, operations=("softmax", "cross_entropy")):
    in_processes(compile_one, [(operation, columns, dtype, options) for operation in operations for columns in widths for dtype in types
                               for options in candidates(columns)])
    for operation, columns, dtype in itertools.product(operations, widths, types):
        x = matrix(columns, dtype)
        y = torch.empty_like(x)
        copy = statistics.median(median(lambda: y.copy_(x)) for _ in range(3))  # noqa: B023
        found = [(copy / median(launch(operation, x, y, o)), tuple(o.values())) for o in candidates(columns)]
        found.sort(key=lambda pair: -pair[0])
        print(operation, columns, str(dtype)[6:], *(f"{100 * part:.0f}%{o}" for part, o in found[:6]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--widths", type=lambda text: [int(part) for part in text.split(",")], default=[*BLOCK_WIDTHS, *WIDE_WIDTHS])
    parser.add_argument("--types", type=lambda text: [getattr(torch, part) for part in text.split(",")], default=TYPES)
    parser.add_argument("--operations", type=lambda text: text.split(","), default=("softmax", "cross_entropy"))
    arguments = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, Triton {triton.__version__}")
    sweep(arguments.widths, arguments.types, arguments.operations) if arguments.sweep else table(widths=arguments.widths)
