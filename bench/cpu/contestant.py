"""Contestants: who computes a row of the table, how it is called, and who owns the memory of its results."""
import ctypes
import dataclasses
import os
import resource
import time
import typing

from work import c_works

# Who owns the results' memory: the caller, or the library, which allocates it in every call. Then the page faults tell whether it was
# "reused" (the allocator had it) or "fresh" (new pages from the system).
CALLER, LIBRARY, REUSED, FRESH = "caller", "library", "reused", "fresh"


class Unsupported(Exception):
    """The contestant has no such operation, type or shape."""


class CRun:
    """A C contestant over its pieces, repeated and timed in C."""

    def __init__(self, library, function, works):
        self.library, self.function, self.works = library, function, works

    def time(self, first, calls):
        taken = self.library.bench_time(self.function, self.works, len(self.works), first, calls)
        if taken < 0:
            raise Unsupported("refused by the function")
        return taken

    def result(self, pieces):
        self.time(0, 1)
        return pieces[0].y


def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


class Malloc:
    """glibc's allocator: as a long-running program has it (blocks to 32 MB are kept), or keeping everything it ever had."""
    M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4
    MOST = 1 << 25  # the threshold that glibc moves up to by itself

    def __init__(self):
        self.libc = ctypes.CDLL(None)

    def keep(self, everything):
        if hasattr(self.libc, "mallopt"):
            self.libc.mallopt(self.M_MMAP_MAX, 0 if everything else 65536)
            self.libc.mallopt(self.M_MMAP_THRESHOLD, self.MOST)
            self.libc.mallopt(self.M_TRIM_THRESHOLD, 2**31 - 1 if everything else 2 * self.MOST)


class PythonRun:
    """A contestant called from Python. calls[i] works on piece i, `nodes` times in one call. `output` turns what a call gives into the
    result; without it the result is in the piece. Results that are given are held for a while, so that out of cache they rotate in the
    allocator's memory as the caller's do in his."""
    malloc = Malloc()
    HELD_BYTES = 1 << 27

    def __init__(self, calls, nodes=1, output=None, keep=False):
        self.calls, self.nodes, self.output, self.keep = calls, nodes, output, keep
        self.given = [None]

    def hold(self, result_bytes):
        """Makes as many results as will be held, again and again until the allocator has all the memory that it needs, if it ever has."""
        if not self.output:
            return
        self.given = [None] * min(len(self.calls), max(2, self.HELD_BYTES // result_bytes))
        for _ in range(6):
            before = page_faults()
            self.time(0, len(self.given))
            if page_faults() - before < len(self.given):
                return

    def time(self, first, calls):
        count, given = len(self.calls), self.given
        batch = [((first + i) % len(given), self.calls[(first + i) % count]) for i in range(max(1, calls // self.nodes))]
        if self.output:
            self.malloc.keep(everything=self.keep)
        start = time.perf_counter()
        for i, call in batch:
            given[i] = call()
        return (time.perf_counter() - start) / (len(batch) * self.nodes) * calls

    def result(self, pieces):
        given = self.calls[0]()
        return pieces[0].y if self.output is None else self.output(given)


@dataclasses.dataclass
class Contestant:
    name: str  # as the table shows it
    rival: str  # the name by which the command line asks for it; "libsoftmax" and "ceiling" always take part
    owner: str
    prepare: typing.Callable  # (row, pieces) -> a run; raises Unsupported
    only: typing.Callable = lambda row: True  # rows that it is for


class CParts:
    """The C half: libraries built by the CMake target softmax_bench and softmax_bench_rivals."""

    def __init__(self, folder):
        self.folder = folder
        self.clock = ctypes.CDLL(os.path.join(folder, "libsoftmax_bench.so"))
        self.clock.bench_time.restype = ctypes.c_double
        self.clock.bench_time.argtypes = [ctypes.c_void_p, ctypes.c_void_p] + 3 * [ctypes.c_int64]
        self.clock.bench_pace.restype = ctypes.c_double

    def contestant(self, name, rival, library, function, isa=None, only=lambda row: True):
        address = ctypes.cast(getattr(library, function), ctypes.c_void_p)

        def prepare(row, pieces):
            run = CRun(self.clock, address, c_works(row, pieces, isa))
            run.time(0, 1)
            return run
        return Contestant(name, rival, CALLER, prepare, only)

    def ceilings(self):
        def three(row):
            return row.backward
        made = [self.contestant("memcpy", "ceiling", self.clock, "bench_memcpy"),
                self.contestant("plain copy", "ceiling", self.clock, "bench_plain_copy"),
                self.contestant("non-temporal copy", "ceiling", self.clock, "bench_nt_copy"),
                self.contestant("three streams", "ceiling", self.clock, "bench_three_streams", only=three),
                self.contestant("read", "ceiling", self.clock, "bench_read", only=lambda row: row.operation == "logsumexp")]
        for ceiling in made:  # logsumexp's y is short
            if ceiling.name not in ("read", "three streams"):
                ceiling.only = lambda row: row.operation != "logsumexp"
        return made

    def libsoftmax(self, isas=()):
        return [self.contestant("libsoftmax", "libsoftmax", self.clock, "bench_libsoftmax")] + \
            [self.contestant(f"libsoftmax {isa}", "libsoftmax", self.clock, "bench_libsoftmax", isa.encode(),
                             only=lambda row, isa=isa: isa in row.isas) for isa in isas]

    def rival(self, name, rival, part):
        """(contestants, library) of a C rival, or a reason in words."""
        path = os.path.join(self.folder, f"libsoftmax_bench_{part}.so")
        if not os.path.exists(path):
            raise ImportError("not built: needs " + {"gcc_loop": "gcc", "sleef": "libsleef-dev on x86-64",
                                                     "onednn": "libdnnl-dev 2"}[part])
        library = ctypes.CDLL(path)
        return library, self.contestant(name, rival, library, f"bench_{part}")
