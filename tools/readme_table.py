#!/usr/bin/env python3
"""README's table: float32 softmax by libsoftmax, NumPy and (where it is installed) PyTorch, one thread each, beside a copy.

usage: readme_table.py [--library build/libsoftmax.so]      needs NumPy

Speed: all take turns in one process, 61 rounds; the median, as elements per second and as a share of numpy.copyto on the same arrays.
Error: the largest over 2,000,000 elements, in ULP; the judge is NumPy's longdouble (64 bits or more)."""
import argparse
import ctypes
import datetime
import os
import platform
import statistics
import time

import numpy

ROUNDS = 61
SPEED_SHAPES = [(8, 4096), (1024, 1024)]


class Options(ctypes.Structure):
    """softmax_options up to `isa`; fields beyond `size` have their defaults."""
    _fields_ = [("size", ctypes.c_size_t), ("softcap", ctypes.c_double), ("scale", ctypes.c_double)] + \
        [(name, ctypes.c_void_p) for name in ("bias", "mask", "valid_lengths")] + \
        [("causal", ctypes.c_int32), ("empty_rows", ctypes.c_int32)] + \
        [(name, ctypes.c_int64) for name in ("causal_offset", "first_column", "ignore_index")] + \
        [("label_smoothing", ctypes.c_double), ("z_loss", ctypes.c_double)] + \
        [(name, ctypes.c_void_p) for name in ("class_weights", "grad_output", "targets_gradient", "row_logsumexp")] + \
        [("reduction", ctypes.c_int32), ("threads", ctypes.c_int32), ("isa", ctypes.c_char_p)]


def libsoftmax(library, isa):
    options = Options(size=ctypes.sizeof(Options), scale=1, ignore_index=-100, reduction=2, threads=1, isa=isa.encode())

    def prepare(x, y):
        arguments = (1, ctypes.c_int64(x.shape[0]), ctypes.c_int64(x.shape[1]), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data),
                     ctypes.byref(options))

        def call():
            if library.softmax_softmax_rows(*arguments):
                raise SystemExit(f"softmax_softmax_rows with {isa} failed")
        return call
    return prepare


def numpy_lines(x, y):
    def call():
        e = numpy.exp(x - x.max(axis=1, keepdims=True))
        y[:] = e / e.sum(axis=1, keepdims=True)
    return call


def pytorch(torch):
    torch.set_num_threads(1)

    def prepare(x, y):
        source, target = torch.from_numpy(x), torch.from_numpy(y)
        return lambda: torch.softmax(source, 1, out=target)
    return prepare


def implementations(library):
    library.softmax_isa_name.restype = ctypes.c_char_p
    found = {}
    for i in reversed(range(library.softmax_isa_count())):
        if library.softmax_isa_available(i):
            name = library.softmax_isa_name(i).decode()
            found[f"libsoftmax {name}"] = libsoftmax(library, name)
    found[f"NumPy {numpy.__version__}, three lines"] = numpy_lines
    try:
        import torch
        found[f"PyTorch {torch.__version__}"] = pytorch(torch)
    except ImportError:
        pass
    return found


def seconds(call, repeat):
    start = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - start) / repeat


def speeds(found, shape, random):
    """name: (elements per second, share of the copy)"""
    x = random.standard_normal(shape).astype(numpy.float32)
    y = numpy.zeros_like(x)
    calls = {"copy": lambda: numpy.copyto(y, x)} | {name: prepare(x, y) for name, prepare in found.items()}
    times = {name: [] for name in calls}
    repeat = max(1, 400000 // x.size)
    for i in range(ROUNDS + 3):
        for name, call in calls.items():
            taken = seconds(call, repeat)
            if i >= 3:  # warm
                times[name].append(taken)
    median = {name: statistics.median(values) for name, values in times.items()}
    return {name: (x.size / taken, median["copy"] / taken) for name, taken in median.items()}


def errors(found, x):
    z = x.astype(numpy.longdouble)
    truth = numpy.exp(z - z.max(axis=1, keepdims=True))
    truth /= truth.sum(axis=1, keepdims=True)
    normal = truth >= 2.0**-126
    unit = numpy.ldexp(numpy.longdouble(1), numpy.frexp(truth)[1] - 24)
    result = {}
    for name, prepare in found.items():
        y = numpy.zeros_like(x)
        prepare(x, y)()
        result[name] = float((abs(y - truth) / unit)[normal].max())
    return result


def processor():
    for line in open("/proc/cpuinfo", encoding="utf-8") if os.path.exists("/proc/cpuinfo") else ():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description="README's table of speed and error")
    parser.add_argument("--library", default="build/libsoftmax.so")
    found = implementations(ctypes.CDLL(parser.parse_args().library))
    random = numpy.random.default_rng(3)
    timed = [speeds(found, shape, random) for shape in SPEED_SHAPES]
    normal = random.standard_normal((2000, 1000))
    judged = [errors(found, (factor * normal).astype(numpy.float32)) for factor in (1, 10)]
    print(f"{processor()}, {datetime.date.today()}, one thread, float32\n")
    print("|  | " + " | ".join(f"{r}×{c}: of a copy" for r, c in SPEED_SHAPES) + " | N(0,1): max ULP | 10·N(0,1): max ULP |")
    print("|---|" + "---:|" * (len(timed) + len(judged)))
    for name in found:
        cells = [f"{100 * speed[name][1]:.2g} % ({speed[name][0] / 1e9:.2f} Gelem/s)" for speed in timed]
        print(f"| {name} | " + " | ".join(cells + [f"{error[name]:.2f}" for error in judged]) + " |")
    print("| a copy | " + " | ".join(f"({speed['copy'][0] / 1e9:.2f} Gelem/s)" for speed in timed) + " |  |  |")


if __name__ == "__main__":
    main()
