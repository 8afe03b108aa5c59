"""worker.py: one process, pinned, that times rows with a given number of threads. Reads rows as JSON from standard input, writes a
line of JSON per row (and per event) to the file descriptor that is its first argument.

All contestants of a row take turns, round after round, so that what the machine does meanwhile hits all alike."""
import json
import os
import resource
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from contestant import CParts, Unsupported, page_faults  # noqa: E402
from exact import Judge  # noqa: E402
from rivals import DEFAULT, load  # noqa: E402
from work import Arena, Row  # noqa: E402

PROCESSORS = sorted(os.sched_getaffinity(0))


def tasks():
    return {int(name) for name in os.listdir("/proc/self/task")} - {os.getpid()}


def pin(new, threads):
    """Pins threads that a library has made: to the processors that the main thread leaves, where they are that many."""
    groups = {}
    for task in sorted(new):
        try:
            with open(f"/proc/self/task/{task}/comm", encoding="utf-8") as file:
                groups.setdefault(file.read().strip(), []).append(task)
        except OSError:
            continue
    for group in groups.values():
        first = 1 if len(group) == threads - 1 else 0
        for i, task in enumerate(group):
            try:
                os.sched_setaffinity(task, {PROCESSORS[(first + i) % threads]})
            except OSError:
                continue


def settle(limit=0.2):
    """Waits until no other thread of this process runs: pools spin for a while after a call."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        for task in tasks():
            try:
                with open(f"/proc/self/task/{task}/stat", encoding="utf-8") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "R":
                        break
            except OSError:
                continue
        else:
            return
        time.sleep(0.001)


def quartiles(values):
    ordered = sorted(values)
    last = len(ordered) - 1

    def at(share):
        low = int(share * last)
        return ordered[low] + (share * last - low) * (ordered[min(low + 1, last)] - ordered[low])
    return at(0.25), at(0.5), at(0.75)


def busy():
    """(seconds that all processes have used, seconds that this one has), so far."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _, _, irq, softirq = (int(field) for field in file.readline().split()[1:8])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK"), usage.ru_utime + usage.ru_stime


class Pace:
    """What the processor gives at the moment (pace.c). Turns in a slow phase are taken again, of all contestants alike, as long as that does not take
    too long: `wait` seconds a row, `wait_in_all` a process."""
    SLOW = 1.05  # times the best so far

    def __init__(self, probe, wait=1.0, wait_in_all=20.0):
        self.probe, self.wait, self.left, self.best = probe, wait, wait_in_all, probe()
        self.begin_row()

    def begin_row(self):
        self.waited = self.slow_turns = self.turns = 0

    def is_slow(self):
        took = self.probe()
        self.best = min(self.best, took)
        return took > self.SLOW * self.best

    def turn(self, timing, first, threads):
        """timing.turn, taken again where the pace was not what it can be; the place after it."""
        while True:
            start, count, slow = time.monotonic(), len(timing.taken), self.is_slow()
            if not slow or self.spent():
                first = timing.turn(first, threads)
                if len(timing.taken) == count:
                    return first
                slow = self.is_slow() or slow
                if not slow or self.spent():
                    self.turns += 1
                    self.slow_turns += slow
                    return first
                timing.taken.pop()
            else:
                time.sleep(0.01)
            took = time.monotonic() - start
            self.waited += took
            self.left -= took

    def spent(self):
        return self.waited > self.wait or self.left < 0


class Timing:
    """One contestant's run, its number of calls per turn, and what its turns took."""

    SECONDS = {"cache": 0.003, "stream": 0.012, "cold": 0}
    SLOW, SLOW_TURNS = 0.1, 3  # who takes longer than this for a turn gets that many

    def __init__(self, contestant, run, row):
        self.contestant, self.run, self.row, self.taken, self.error, self.faults = contestant, run, row, [], None, 0
        self.calls = getattr(run, "nodes", 1)
        if row.mode != "cold":
            once = min(run.time(0, self.calls) for _ in range(2)) / self.calls
            wanted = -(-self.SECONDS[row.mode] // max(once, 1e-9))
            self.calls = int(max(self.calls, min(wanted, 100000)))

    def turn(self, first, threads):
        if len(self.taken) >= self.SLOW_TURNS and self.taken[-1] * self.calls > self.SLOW:
            return first
        if threads > 1:
            settle()
            self.run.time(first, 1)  # wakes its threads
            first += 1
        faults = page_faults()
        self.taken.append(self.run.time(first, self.calls) / self.calls)
        self.faults += page_faults() - faults
        return first + self.calls

    def owner(self, result_bytes):
        if self.contestant.owner == "caller":
            return "caller"
        pages = self.calls * len(self.taken) * result_bytes / resource.getpagesize()
        return "fresh" if self.faults > pages / 2 else "reused"

    def summary(self, elements, result_bytes):
        low, median, high = quartiles(self.taken)
        return {"contestant": self.contestant.name, "rival": self.contestant.rival, "owner": self.owner(result_bytes), "seconds": median,
                "low": low, "high": high, "best": min(self.taken), "turns": len(self.taken), "calls": self.calls,
                "gelem": elements / median / 1e9, "ulp": self.error}


class Worker:
    def __init__(self, settings, send):
        self.send, self.threads, self.rounds = send, settings["threads"], settings["rounds"]
        self.arena = Arena()
        self.parts = CParts(settings["folder"])
        self.pace = Pace(self.parts.clock.bench_pace)
        self.contestants = self.parts.ceilings() + self.parts.libsoftmax(settings["isas"])
        if self.threads > 1:  # JAX counts the processors that it may use when it starts
            os.sched_setaffinity(0, PROCESSORS[:self.threads])
        self.load(settings["rivals"])

    def load(self, wanted):
        before = tasks()
        for name, version, made in load(wanted, self.parts):
            pin(tasks() - before, self.threads)
            before = tasks()
            if isinstance(made, Exception):
                self.send({"missing": name, "why": f"{type(made).__name__}: {made}".splitlines()[0][:160]})
            else:
                self.contestants += made
                self.send({"version": name, "is": version})

    def prepare(self, row, pieces, judge):
        timings = []
        taking_part = ("ceiling", "libsoftmax") + (row.rivals or DEFAULT) + row.extra
        for contestant in self.contestants:
            if contestant.rival not in taking_part or not contestant.only(row):
                continue
            before = tasks()
            if self.threads > 1:
                os.sched_setaffinity(0, PROCESSORS[:self.threads])
            try:
                pieces[0].y.reshape(-1).view("uint8")[:] = 0xff
                run = contestant.prepare(row, pieces)
                result = run.result(pieces)
                error = None if contestant.rival == "ceiling" else judge.error(result)
                if row.mode == "stream" and hasattr(run, "hold"):
                    run.hold(pieces[0].y.nbytes)
                pin(tasks() - before, self.threads)
                os.sched_setaffinity(0, PROCESSORS[:1])
                timings.append(Timing(contestant, run, row))
                pin(tasks() - before, self.threads)  # some start with the first calls
                timings[-1].error = error
            except Unsupported:
                continue
            except Exception as failure:  # a rival's failure is a line of the report, not the end of the run
                self.send({"failed": contestant.name, "row": row.title, "why": f"{type(failure).__name__}: {failure}".splitlines()[0][:200]})
            finally:
                os.sched_setaffinity(0, PROCESSORS[:1])
        return timings

    def row(self, number, row):
        start = time.monotonic()
        pieces = self.arena.pieces(row)
        judge = Judge(row, pieces[0])
        timings = self.prepare(row, pieces, judge)
        evicted = bytearray(1 << 27) if row.mode == "cold" else None
        place, all_before, own_before, clock = 1, *busy(), time.monotonic()
        self.pace.begin_row()
        for round_number in range(self.rounds * (3 if row.mode == "cold" else 1)):
            for i in range(len(timings)):
                timing = timings[(i + round_number) % len(timings)]
                if evicted:
                    evicted[::64] = bytes([round_number % 256]) * (len(evicted) // 64)
                place = self.pace.turn(timing, place, self.threads)
        others = (busy()[0] - all_before - busy()[1] + own_before) / (time.monotonic() - clock) / os.cpu_count()
        self.send({"row": number, "took": time.monotonic() - start, "others": max(0, others),
                   "slow": self.pace.slow_turns / max(1, self.pace.turns),
                   "results": [timing.summary(row.elements, pieces[0].y.nbytes) for timing in timings]})


def main():
    output = os.fdopen(int(sys.argv[1]), "w", buffering=1)

    def send(message):
        output.write(json.dumps(message) + "\n")

    settings = json.loads(sys.stdin.readline())
    worker = Worker(settings, send)
    send({"ready": True})
    for line in sys.stdin:
        number, fields = json.loads(line)
        for name in ("shape", "rivals", "isas", "extra"):
            fields[name] = tuple(fields[name])
        worker.row(number, Row(**fields))


if __name__ == "__main__":
    main()
