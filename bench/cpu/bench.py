#!/usr/bin/env python3
"""bench.py [options]: the library, the ceilings and its rivals, timed in turns. `make bench ARGS="..."` sets it up and runs it.

Without --op, --shape, --type or --mode the core set runs; with them, one question is answered:
  bench.py --op softmax --shape 8x4096 --rivals onnxruntime,numpy
Shapes are ROWSxCOLUMNS, or OUTERxCOLUMNSxINNER@1 for an axis that is not last; lists are separated by commas."""
import argparse
import dataclasses
import datetime
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from core_set import core_rows  # noqa: E402
from report import Report, processor  # noqa: E402
from rivals import DEFAULT, NAMES  # noqa: E402
from work import DTYPES, MODES, OPERATIONS, Row  # noqa: E402


def shape(text):
    match = re.fullmatch(r"(\d+)x(\d+)(?:x(\d+)@1)?", text)
    if not match:
        raise SystemExit(f"bench: shape {text}: ROWSxCOLUMNS or OUTERxCOLUMNSxINNER@1 is allowed")
    return tuple(int(part or 1) for part in match.groups())


def listed(text, allowed, what):
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in allowed:
            raise SystemExit(f"bench: {what} {name}: allowed are {', '.join(allowed)}")
    return names


def arguments():
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default="", help=", ".join(OPERATIONS))
    parser.add_argument("--shape", default="", help="for example 8x4096,64x1024x256@1")
    parser.add_argument("--type", default="", help=", ".join(DTYPES))
    parser.add_argument("--mode", default="", help="cache (one buffer repeated), stream (rotating over 1 GB), cold (single calls)")
    parser.add_argument("--threads", default="", help="for example 1,2")
    parser.add_argument("--rivals", help=f"{', '.join(NAMES)}; 'none'; without it all but torch.compile")
    parser.add_argument("--isa", default="", help="instruction sets to force beside the library's choice, for example avx2,portable")
    parser.add_argument("--values", default="normal", choices=["normal", "times1000", "tiny"])
    parser.add_argument("--rounds", type=int, default=9, help="turns that each contestant gets")
    parser.add_argument("--folder", default="build/bench", help="where the C half was built")
    parser.add_argument("--results", help="folder for table, CSV and plots; the core set goes to bench/results/<date>-<processor>, else none")
    return parser.parse_args()


def chosen_rows(given):
    if not (given.op or given.shape or given.type or given.mode):
        rows = core_rows()
    else:
        operations = listed(given.op or "softmax", OPERATIONS, "operation")
        types = listed(given.type or "float32", list(DTYPES), "type")
        shapes = [shape(text) for text in (given.shape or "8x4096").split(",")]
        modes = listed(given.mode or "cache", MODES, "mode")
        threads = [int(text) for text in (given.threads or "1").split(",")]
        rows = [Row(o, t, s, m, n, given.values, isas=tuple(given.isa.split(",")) if given.isa else ())
                for o in operations for t in types for s in shapes for m in modes for n in threads]
    if given.threads:
        rows = [row for row in rows if row.threads in [int(text) for text in given.threads.split(",")]]
    if given.rivals is not None:
        names = () if given.rivals == "none" else tuple(listed(given.rivals, NAMES, "rival"))
        rows = [dataclasses.replace(row, rivals=names or ("none",), extra=()) for row in rows]
    return rows


class Workers:
    """A process per number of threads, pinned to as many processors."""

    def __init__(self, given, report, rows):
        self.given, self.report, self.rows = given, report, rows
        self.started = time.monotonic()

    def run(self):
        done = 0
        for threads in sorted({row.threads for row in self.rows}):
            numbered = [(i, row) for i, row in enumerate(self.rows) if row.threads == threads]
            for number, message in self.worker(threads, numbered):
                done += 1
                self.report.row(self.rows[number], message)
                print(f"[{done}/{len(self.rows)} {time.monotonic() - self.started:4.0f} s] {self.report.line(self.rows[number])}",
                      flush=True)

    def worker(self, threads, numbered):
        available = sorted(os.sched_getaffinity(0))
        if threads > len(available):
            print(f"bench: {threads} threads: {len(available)} processors are available; left out")
            return
        wanted = {name for _, row in numbered for name in (row.rivals or DEFAULT) + row.extra}
        isas = sorted({isa for _, row in numbered for isa in row.isas})
        settings = {"threads": threads, "rounds": self.given.rounds, "folder": os.path.abspath(self.given.folder), "isas": isas,
                    "rivals": sorted(wanted & set(NAMES))}
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_PROC_BIND="true", PYTHONDONTWRITEBYTECODE="1",
                           OMP_PLACES=",".join(f"{{{cpu}}}" for cpu in available[:threads]), OPENBLAS_NUM_THREADS="1",
                           JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3", CI="true")  # CI: OpenVINO reports no usage then
        environment.pop("OMP_WAIT_POLICY", None)
        source, sink = os.pipe()
        process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "worker.py"), str(sink)], stdin=subprocess.PIPE, env=environment, pass_fds=[sink],
            preexec_fn=lambda: os.sched_setaffinity(0, available[:threads]))
        os.close(sink)
        lines = [json.dumps(settings)] + [json.dumps([i, dataclasses.asdict(row)]) for i, row in numbered]
        process.stdin.write(("\n".join(lines) + "\n").encode())
        process.stdin.close()
        with os.fdopen(source) as results:
            for line in results:
                message = json.loads(line)
                if "row" in message and "results" in message:
                    yield message["row"], message
                else:
                    self.report.event(message)
        if process.wait() != 0:
            self.report.broken(threads, process.returncode)


def main():
    given = arguments()
    rows = chosen_rows(given)
    core = not (given.op or given.shape or given.type or given.mode)
    if core and given.results is None:
        slug = re.sub(r"[^a-z0-9]+", "-", processor().lower()).strip("-")
        given.results = os.path.join(HERE, "..", "results", f"{datetime.date.today()}-{slug}")
    report = Report(given)
    Workers(given, report, rows).run()
    report.finish(core)
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
