#!/usr/bin/env python3
"""The ladder of docs/performance.md: float32 softmax out of cache, step by step from the textbook's three passes.

usage: ladder.py [--build build] [--without-prefetch build/no-prefetch] [--rounds 9]      needs NumPy; processors 0 and 1

  three passes     src/reference/three_pass.c: one expf a score
  vector exp       gcc_loop.c: the same three passes, -Ofast, libmvec's exp
  one read         libsoftmax, terms in scratch memory; ordinary stores, nothing fetched ahead
  streaming        ... results past the caches
  prefetch         ... lines of the next row or block fetched ahead
  two threads      ... rows, or a row's blocks, over two threads

Scores are 3 N(0,1); inputs and results rotate over 1 GB; all steps take turns, and the table has medians, in Gelem/s and as a share of a
non-temporal copy by one thread. The library without prefetch is the same source, built with __builtin_prefetch defined away."""
import argparse
import ctypes
import os
import statistics
import time

from work import Arena, Row, c_works
from worker import PROCESSORS, settle

SHAPES = [(16384, 256, 1), (4096, 1024, 1), (1024, 4096, 1), (131, 32000, 1), (4, 1 << 20, 1)]
NEVER, ALWAYS = 1, 2  # softmax_streaming's


class Options(ctypes.Structure):
    """softmax_options."""
    _fields_ = [("size", ctypes.c_size_t), ("softcap", ctypes.c_double), ("scale", ctypes.c_double)] + \
        [(name, ctypes.c_void_p) for name in ("bias", "mask", "valid_lengths")] + [("causal", ctypes.c_int32), ("empty_rows", ctypes.c_int32)] + \
        [(name, ctypes.c_int64) for name in ("causal_offset", "first_column", "ignore_index")] + \
        [("label_smoothing", ctypes.c_double), ("z_loss", ctypes.c_double)] + \
        [(name, ctypes.c_void_p) for name in ("class_weights", "grad_output", "targets_gradient", "row_logsumexp")] + \
        [("reduction", ctypes.c_int32), ("threads", ctypes.c_int32)] + \
        [(name, ctypes.c_void_p) for name in ("isa", "stream", "device_status", "message")] + \
        [("message_bytes", ctypes.c_size_t), ("scratch", ctypes.c_void_p), ("scratch_bytes", ctypes.c_size_t), ("scratch_needed", ctypes.c_void_p),
         ("cuda_kernel", ctypes.c_void_p), ("streaming", ctypes.c_int32)]


def load(folder, library):
    return ctypes.CDLL(os.path.abspath(os.path.join(folder, library)))


def of_work(function):
    return lambda work: function(ctypes.byref(work))


def of_library(library, streaming, threads=1):
    """Called by itself: a bench library of either build would get the libsoftmax that is there already."""
    options = Options(size=ctypes.sizeof(Options), scale=1, ignore_index=-100, reduction=2, threads=threads, streaming=streaming)
    return lambda work: library.softmax_softmax_rows(work.type, ctypes.c_int64(work.outer), ctypes.c_int64(work.columns), ctypes.c_void_p(work.x),
                                                     ctypes.c_void_p(work.y), ctypes.byref(options))


def steps_of(build, without):
    library, plain = load(build, "libsoftmax.so"), load(without, "libsoftmax.so")
    three_pass = library.softmax_reference_three_pass
    three_pass.restype = None
    return {
        "non-temporal copy": of_work(load(build, "bench/libsoftmax_bench.so").bench_nt_copy),
        "three passes": lambda work: three_pass(ctypes.c_void_p(work.x), ctypes.c_void_p(work.y), ctypes.c_int64(work.outer), ctypes.c_int64(work.columns)),
        "vector exp": of_work(load(build, "bench/libsoftmax_bench_gcc_loop.so").bench_gcc_loop),
        "one read": of_library(plain, NEVER),
        "streaming": of_library(plain, ALWAYS),
        "prefetch": of_library(library, ALWAYS),
        "two threads": of_library(library, ALWAYS, threads=2),
    }


def seconds_of(call, works, first, calls):
    """Of a call, out of `calls`; one more before them wakes the threads. The step before may have left threads that spin: they are waited for."""
    settle()
    for i in range(calls + 1):
        if i == 1:
            start = time.perf_counter()
        if call(works[(first + i) % len(works)]):
            raise SystemExit("a contestant failed")
    return (time.perf_counter() - start) / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--without-prefetch", default="build/no-prefetch")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    os.environ.update(OMP_PROC_BIND="true", OMP_PLACES=",".join(f"{{{processor}}}" for processor in PROCESSORS[:2]))  # before a library that reads it
    steps, arena = steps_of(arguments.build, arguments.without_prefetch), Arena()
    print("| rows × columns | " + " | ".join(steps) + " |\n|---|" + "---:|" * len(steps))
    for shape in SHAPES:
        row = Row("softmax", "float32", shape, mode="stream")
        works = c_works(row, arena.pieces(row))
        taken = {name: [] for name in steps}
        for turn in range(arguments.rounds):
            for place, (name, call) in enumerate(steps.items()):
                taken[name].append(seconds_of(call, works, 5 * (turn * len(steps) + place), 1 if name == "three passes" else 4))
        median = {name: statistics.median(seconds) for name, seconds in taken.items()}
        cells = [f"{row.elements / seconds * 1e-9:.2f} ({100 * median['non-temporal copy'] / seconds:.0f} %)" for seconds in median.values()]
        print(f"| {shape[0]}×{shape[1]} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
