"""What a call from Python costs: microseconds on a (1, 8) float32 row, and the speed of results in new memory against out=.

    pip install . torch==2.13.0 && python tools/python_overhead.py [row | memory]
"""
import statistics
import sys
import time

import numpy as np
import torch

import libsoftmax


def fastest(call, repeats, number):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(number):
            call()
        times.append((time.perf_counter() - start) / number)
    return times


def numpy_lines(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def row():
    x = np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)
    t, out = torch.from_numpy(x), np.empty_like(x)
    t_out, logits, target = torch.empty_like(t), x, np.array([3])
    calls = {
        "an empty function": lambda: None,
        "libsoftmax.softmax, NumPy": lambda: libsoftmax.softmax(x),
        "  with out=, NumPy": lambda: libsoftmax.softmax(x, out=out),
        "  with axis=-1, scale=0.5": lambda: libsoftmax.softmax(x, axis=-1, scale=0.5),
        "libsoftmax.logsumexp, NumPy": lambda: libsoftmax.logsumexp(x),
        "libsoftmax.cross_entropy with gradient, NumPy": lambda: libsoftmax.cross_entropy(logits, target, gradient=True),
        "libsoftmax.softmax, torch": lambda: libsoftmax.softmax(t),
        "  with out=, torch": lambda: libsoftmax.softmax(t, out=t_out),
        "NumPy, three lines": lambda: numpy_lines(x),
        "torch.softmax": lambda: torch.softmax(t, -1),
    }
    times = {name: [] for name in calls}
    for _ in range(9):  # in turns
        for name, call in calls.items():
            times[name] += fastest(call, 3, 4000)
    print("(1, 8) float32, us a call: median, fastest")
    for name, values in times.items():
        print(f"{name:46} {statistics.median(values) * 1e6:6.2f} {min(values) * 1e6:6.2f}")


def memory():
    torch.set_num_threads(1)
    print("float32 rows of 1024, one thread; Gelem/s: out= median of 5, then each repetition of a call without out= that frees its result before the next")
    for megabytes in (2, 32, 512):
        x = np.random.default_rng(0).standard_normal((megabytes * 256, 1024)).astype(np.float32)
        t, out = torch.from_numpy(x), np.empty_like(x)
        out[:] = 0
        for name, call, with_out in (("libsoftmax", lambda: libsoftmax.softmax(x, threads=1), lambda: libsoftmax.softmax(x, out=out, threads=1)),
                                     ("  of torch", lambda: libsoftmax.softmax(t, threads=1), lambda: libsoftmax.softmax(t, out=t, threads=1)),
                                     ("torch", lambda: torch.softmax(t, -1), lambda: torch.softmax(t, -1, out=torch.from_numpy(out))),
                                     ("NumPy", lambda: numpy_lines(x), None)):
            libsoftmax.set_cache_limit(0)
            libsoftmax.set_cache_limit(1 << 30)
            if with_out is None:
                base = float("nan")
            else:
                source = t.clone() if name == "  of torch" else None
                base = x.size / statistics.median(fastest(with_out, 6, 1)[1:]) * 1e-9
                if source is not None:
                    t.copy_(source)
            each = [x.size / fastest(call, 1, 1)[0] * 1e-9 for _ in range(6)]
            print(f"{megabytes:4} MB {name:11} out= {base:5.2f}  without: {' '.join(f'{v:5.2f}' for v in each)}   third: {each[2] / base * 100:4.0f} % of out=")


for part in sys.argv[1:] or ["row", "memory"]:
    {"row": row, "memory": memory}[part]()
