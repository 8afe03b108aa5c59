#!/usr/bin/env python3
"""The ladder of docs/performance.md: float32 softmax out of cache, step by step from the textbook's three passes.

usage: ladder.py [--build build] [--without-prefetch build/no-prefetch] [--rounds 9]      needs NumPy; processors 0 and 1

  three passes     src/reference/three_pass.c: one expf a score
  vector exp       bench/cpu/gcc_loop.c: the same three passes, -Ofast, libmvec's exp
  one read         libsoftmax, terms in scratch memory; ordinary stores, nothing fetched ahead
  streaming        ... results past the caches
  prefetch         ... lines of the next row or block fetched ahead
  two threads      ... rows, or a row's blocks, over two threads

Scores are 3 N(0,1); inputs and results rotate over 512 MB each; all steps take turns, and the table has medians, in Gelem/s and as a share of a
non-temporal copy by one thread. The library without prefetch is the same source, built with __builtin_prefetch defined away."""
import argparse
import ctypes
import os
import statistics
import time

import numpy

SHAPES = [(16384, 256), (4096, 1024), (1024, 4096), (131, 32000), (4, 1 << 20)]
BYTES = 1 << 29
NEVER, ALWAYS = 1, 2
SOFTMAX, FLOAT32 = 0, 1


class Work(ctypes.Structure):
    """bench_work of bench/cpu/work.h."""
    _fields_ = [("operation", ctypes.c_int32), ("type", ctypes.c_int32)] + [(n, ctypes.c_int64) for n in ("outer", "columns", "inner")] + \
        [(n, ctypes.c_void_p) for n in ("x", "dy", "mask", "targets", "y", "loss", "isa")] + [("threads", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class Options(ctypes.Structure):
    """softmax_options."""
    _fields_ = [("size", ctypes.c_size_t), ("softcap", ctypes.c_double), ("scale", ctypes.c_double)] + \
        [(n, ctypes.c_void_p) for n in ("bias", "mask", "valid_lengths")] + [("causal", ctypes.c_int32), ("empty_rows", ctypes.c_int32)] + \
        [(n, ctypes.c_int64) for n in ("causal_offset", "first_column", "ignore_index")] + \
        [("label_smoothing", ctypes.c_double), ("z_loss", ctypes.c_double)] + \
        [(n, ctypes.c_void_p) for n in ("class_weights", "grad_output", "targets_gradient", "row_logsumexp")] + \
        [("reduction", ctypes.c_int32), ("threads", ctypes.c_int32)] + [(n, ctypes.c_void_p) for n in ("isa", "stream", "device_status", "message")] + \
        [("message_bytes", ctypes.c_size_t), ("scratch", ctypes.c_void_p), ("scratch_bytes", ctypes.c_size_t), ("scratch_needed", ctypes.c_void_p),
         ("cuda_kernel", ctypes.c_void_p), ("streaming", ctypes.c_int32)]


def of_work(function, threads=1):
    function.restype = ctypes.c_int

    def call(x, y, rows, columns):
        if function(ctypes.byref(Work(SOFTMAX, FLOAT32, rows, columns, 1, x=x, y=y, threads=threads))):
            raise SystemExit("a contestant failed")
    return call


def of_library(library, streaming, threads=1):
    options = Options(size=ctypes.sizeof(Options), scale=1, ignore_index=-100, reduction=2, threads=threads, streaming=streaming)

    def call(x, y, rows, columns):
        if library.softmax_softmax_rows(FLOAT32, ctypes.c_int64(rows), ctypes.c_int64(columns), ctypes.c_void_p(x), ctypes.c_void_p(y), ctypes.byref(options)):
            raise SystemExit("softmax_softmax_rows failed")
    return call


def contestants(build, without):
    library, plain = (ctypes.CDLL(os.path.abspath(os.path.join(folder, "libsoftmax.so"))) for folder in (build, without))
    reference = library.softmax_reference_three_pass
    bench = ctypes.CDLL(os.path.abspath(os.path.join(build, "bench", "libsoftmax_bench.so")))
    loop = ctypes.CDLL(os.path.abspath(os.path.join(build, "bench", "libsoftmax_bench_gcc_loop.so")))
    return {
        "non-temporal copy": of_work(bench.bench_nt_copy),
        "three passes": lambda x, y, rows, columns: reference(ctypes.c_void_p(x), ctypes.c_void_p(y), ctypes.c_int64(rows), ctypes.c_int64(columns)),
        "vector exp": of_work(loop.bench_gcc_loop),
        "one read": of_library(plain, NEVER),
        "streaming": of_library(plain, ALWAYS),
        "prefetch": of_library(library, ALWAYS),
        "two threads": of_library(library, ALWAYS, threads=2),
    }


def measure(steps, x, y, rows, columns, rounds):
    """Median seconds a call of every step."""
    elements = rows * columns
    pieces = x.size // elements
    seconds = {name: [] for name in steps}
    place = 0
    for _ in range(rounds):
        for name, call in steps.items():
            calls = 1 if name == "three passes" else 4
            places = [(place + i) % pieces * 4 * elements for i in range(calls + 1)]
            place += calls + 1
            call(x.ctypes.data + places[0], y.ctypes.data + places[0], rows, columns)  # wakes the threads
            start = time.perf_counter()
            for at in places[1:]:
                call(x.ctypes.data + at, y.ctypes.data + at, rows, columns)
            seconds[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--without-prefetch", default="build/no-prefetch")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    steps = contestants(arguments.build, arguments.without_prefetch)
    x = numpy.random.default_rng(1).standard_normal(BYTES // 4, dtype=numpy.float32) * 3
    y = numpy.zeros_like(x)
    print("| rows × columns | " + " | ".join(steps) + " |\n|---|" + "---:|" * len(steps))
    for rows, columns in SHAPES:
        taken = measure(steps, x, y, rows, columns, arguments.rounds)
        copy = taken["non-temporal copy"]
        cells = [f"{rows * columns / seconds * 1e-9:.2f} ({100 * copy / seconds:.0f} %)" for seconds in taken.values()]
        print(f"| {rows}×{columns} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
