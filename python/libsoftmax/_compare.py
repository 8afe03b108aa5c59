"""`python -m libsoftmax compare`: runs the Python ways on the same input, and has the command judge them in its table."""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from libsoftmax import _command, _ways

ROUNDS, SECONDS, STRETCH = 25, 0.25, 5e-4  # as the command's own rows


def arguments(words):
    """The options that the Python ways must know; the command checks them all."""
    parser = argparse.ArgumentParser(prog="python -m libsoftmax compare", add_help=False, allow_abbrev=False)
    parser.add_argument("--op", default="softmax")
    parser.add_argument("--axis", type=int, default=-1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--softcap", type=float, default=0.0)
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--causal-offset", type=int, default=0)
    parser.add_argument("--empty-rows", default="nan")
    for name in ("mask", "valid-lengths", "grad", "targets", "class-weights"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--label-smoothing", type=float, default=0.0)
    parser.add_argument("--z-loss", type=float, default=0.0)
    parser.add_argument("--ignore-index", type=int, default=-100)
    parser.add_argument("--isa")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--reduction")
    parser.add_argument("--result", action="append", default=[])
    parser.add_argument("input", metavar="FILE.npy")
    return parser.parse_args(words)


def split_plot(words):
    """--plot OUT.svg is ours alone."""
    words, plot = list(words), None
    for i, word in enumerate(words):
        if word == "--plot" and i + 1 < len(words):
            plot = words[i + 1]
            del words[i : i + 2]
            break
        if word.startswith("--plot"):
            if "=" not in word:
                sys.exit("libsoftmax: --plot: needs the name of a file")
            plot = word.split("=", 1)[1]
            del words[i]
            break
    return words, plot


def timed(call):
    """Seconds of a call: the median over rounds, each of as many calls as make a measurable stretch. The first is not counted."""
    call()
    times, start = [], time.perf_counter()
    while len(times) < 3 or (len(times) < ROUNDS and time.perf_counter() - start < SECONDS):
        calls, begin = 0, time.perf_counter()
        while calls == 0 or time.perf_counter() - begin < STRETCH:
            call()
            calls += 1
        times.append((time.perf_counter() - begin) / calls)
    return statistics.median(times)


def results(given, folder):
    """--result words for the command, one for each way that this problem has."""
    words = []
    for number, (name, call, finish) in enumerate(_ways.ways(_ways.Problem(given))):
        file = pathlib.Path(folder, f"{number}.npy")
        try:
            result = finish(call())
            seconds = timed(call)
        except Exception as error:  # a way that cannot compute this: the table says so
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", file=sys.stderr)
            continue
        np.save(file, np.ascontiguousarray(result.view(np.uint16) if result.dtype.name == "bfloat16" else result))
        words += ["--result", f"{name}={file}@{seconds!r}"]
    return words


ROW = re.compile(r"^(.{20}) +(ok|\d+ wrong) +(\S+) +(\S+)  [0-9a-f]{16} +(?:(\S+ \w+)|-) +(\S+) +(\S+)", re.M)


def rows_of(table):
    """(name, rows that are wrong, max ULP, Gelem/s) of every row of the table."""
    return [(m[1].strip(), 0 if m[2] == "ok" else int(m[2].split()[0]), float(m[3]) if m[3] != "-" else None,
             float(m[6]) if m[6] != "-" else None) for m in ROW.finditer(table)]


def main(words):
    words, plot = split_plot(words)
    given = arguments(words)
    if given.input == "-":
        sys.exit("libsoftmax: -: the Python ways need a file, not standard input")
    processors = os.sched_getaffinity(0)
    if given.threads == 1:  # the libraries that are loaded from here on see one processor
        os.sched_setaffinity(0, {min(processors)})
    environment = {"SOFTMAX_PYTHON": sys.executable, **os.environ}
    with tempfile.TemporaryDirectory(prefix="libsoftmax-") as folder:
        try:
            more = results(given, folder)
        except (OSError, ValueError, TypeError, IndexError):  # the command says in its own words what is wrong with the input
            more = []
        os.sched_setaffinity(0, processors)
        done = subprocess.run([_command.path(), "compare", *more, *words], env=environment, stdout=subprocess.PIPE, text=True)
        sys.stdout.write(done.stdout)
    if plot and done.returncode == 0:
        from libsoftmax import _plot

        pathlib.Path(plot).write_text(_plot.drawing(done.stdout, rows_of(done.stdout), given))
    return done.returncode
