"""Memory of results: the cache of freed blocks, its bound, threads and forks; nothing leaks."""
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from arrays_of import MAKE, bits

import libsoftmax

MB = 1 << 20


@pytest.fixture
def empty_cache():
    limit = libsoftmax.cache_info()["limit_bytes"]
    libsoftmax.set_cache_limit(0)
    libsoftmax.set_cache_limit(256 * MB)
    yield
    libsoftmax.set_cache_limit(limit)


def rows(megabytes):
    return np.zeros((megabytes * 256, 1024), np.float32)


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
def test_freed_results_are_used_again(empty_cache, kind):
    x = MAKE[kind](rows(8))
    before = libsoftmax.cache_info()
    for _ in range(4):
        y = libsoftmax.softmax(x)
        del y
        gc.collect()
    after = libsoftmax.cache_info()
    assert after["hits"] - before["hits"] == 3 and after["misses"] - before["misses"] == 1
    assert after["blocks"] == 1 and 8 * MB <= after["bytes"] <= 10 * MB


def test_a_result_is_never_shared(empty_cache, rng):
    x = rng.standard_normal((2048, 1024)).astype(np.float32)
    held = [libsoftmax.softmax(x, scale=1 + i) for i in range(4)]
    copies = [y.copy() for y in held]
    del held[1]
    for i in range(8):
        libsoftmax.softmax(x, scale=-1 - i)
    assert all(bits(y) == bits(copies[i]) for y, i in zip(held, (0, 2, 3)))


def test_small_results_are_not_kept(empty_cache):
    for _ in range(3):
        libsoftmax.softmax(np.zeros((256, 1024), np.float32))
    assert libsoftmax.cache_info()["blocks"] == 0


def test_the_cache_is_bounded(empty_cache):
    libsoftmax.set_cache_limit(20 * MB)
    held = [libsoftmax.softmax(rows(8)) for _ in range(5)]
    held.clear()
    info = libsoftmax.cache_info()
    assert 0 < info["bytes"] <= info["limit_bytes"] == 20 * MB
    libsoftmax.softmax(rows(32))  # larger than the limit: given back at once, and what is kept stays
    assert libsoftmax.cache_info()["bytes"] == info["bytes"]
    libsoftmax.set_cache_limit(0)
    assert libsoftmax.cache_info()["bytes"] == 0
    libsoftmax.softmax(rows(8))
    assert libsoftmax.cache_info()["bytes"] == 0


def test_many_blocks(empty_cache):
    held = [libsoftmax.softmax(np.zeros((2, 200_000), np.float32)) for _ in range(80)]
    held.clear()
    assert 0 < libsoftmax.cache_info()["blocks"] <= 64


def test_numpy_owns_the_memory(empty_cache):
    y = libsoftmax.softmax(rows(4))
    assert y.flags.owndata and y.flags.aligned and y.flags.c_contiguous and y.ctypes.data % 64 == 0
    y.resize((8, 1024), refcheck=False)  # moves to another block
    assert (y == np.float32(1 / 1024)).all()
    y.resize((4096, 1024), refcheck=False)
    assert (y[:8] == np.float32(1 / 1024)).all()


def test_blocks_outlive_their_makers(empty_cache):
    y = libsoftmax.softmax(torch.zeros(4096, 1024))
    view = y[1:].numpy()
    del y
    gc.collect()
    assert (view == np.float32(1 / 1024)).all()


def test_freed_on_other_threads(empty_cache):
    def work():
        for _ in range(20):
            assert libsoftmax.softmax(np.zeros((2, 300_000), np.float32))[0, 0] > 0

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert libsoftmax.cache_info()["blocks"] <= 64


FORK = """
import os, sys, threading, numpy as np, libsoftmax
x = np.zeros((1024, 1024), np.float32)
expected = libsoftmax.softmax(x).tobytes()
stop = []
def work():
    while not stop: libsoftmax.softmax(x)
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
for _ in range(20):
    child = os.fork()
    if child == 0: os._exit(0 if libsoftmax.softmax(x).tobytes() == expected else 1)
    if os.waitpid(child, 0)[1]: stop.append(1); sys.exit('a child failed')
stop.append(1)
"""


def test_forks_while_threads_work():
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=120).returncode == 0


def test_limit_from_the_environment():
    def run(value):
        return subprocess.run([sys.executable, "-c", "import libsoftmax; print(libsoftmax.cache_info()['limit_bytes'])"],
                              env={**os.environ, "LIBSOFTMAX_CACHE_BYTES": value}, capture_output=True, text=True)

    assert run("12345678").stdout == "12345678\n"
    assert "ValueError: LIBSOFTMAX_CACHE_BYTES is '5MB'; a number of bytes, 0 or more, is allowed" in run("5MB").stderr
    assert int(run("").stdout) <= 1 << 30


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("kind", ["numpy", "torch", "foreign", "old"])
def test_nothing_leaks(kind, rng):
    x = MAKE[kind](rng.standard_normal((4, 5000)).astype(np.float32))
    targets, state = [1, 2, 3, 4], libsoftmax.State(4)

    def calls():
        for _ in range(300):
            y = libsoftmax.softmax(x)
            libsoftmax.softmax_backward(y, x)
            libsoftmax.logsumexp(x, None if kind in ("numpy", "torch") else 0, keepdims=True)
            libsoftmax.cross_entropy(x, targets, gradient=True, row_logsumexp=True, reduction="none")
            state.update(x)
            for wrong in (dict(scale="a"), dict(out=[1]), dict(mask=np.zeros(7, bool)), dict(dtype="float64")):
                with pytest.raises((TypeError, ValueError)):
                    libsoftmax.softmax(x, **wrong)

    calls()
    gc.collect()
    before, counts = resident(), [sys.getrefcount(o) for o in (x, state, None, libsoftmax)]
    calls()
    gc.collect()
    assert resident() - before < 4 * MB  # one result leaked at every turn would be 24 MB
    after = [sys.getrefcount(o) for o in (x, state, None, libsoftmax)]
    assert all(abs(a - b) < 100 for a, b in zip(after, counts))


def test_the_lock_of_the_interpreter_is_released():
    """While one thread computes, this one counts on; with the lock held it could not before the end."""
    x = np.zeros((1, 1 << 26), np.float32)
    out = np.empty_like(x)
    started = threading.Event()

    def work():
        started.set()
        libsoftmax.softmax(x, out=out, threads=1)

    thread = threading.Thread(target=work)
    old = sys.getswitchinterval()
    sys.setswitchinterval(100)  # nobody takes the lock from a thread that does not give it
    try:
        thread.start()
        started.wait()
        counted = 0
        while thread.is_alive() and counted < 1000:
            counted += 1
    finally:
        sys.setswitchinterval(old)
    thread.join()
    assert counted == 1000
