"""What was timed, as lines while it runs, and as Markdown and CSV: medians, spread, shares of the ceiling, ratios, errors, and the bar."""
import csv
import datetime
import os
import platform
import subprocess

from core_set import bars
from exact import FORMATS

CEILINGS = {"cache": ("memcpy", "plain copy"), "cold": ("memcpy", "plain copy", "non-temporal copy"),
            "stream": ("non-temporal copy", "plain copy", "memcpy")}
BUSY = 0.05  # a row is marked where other processes took more of the processors
SLOW = 0.2  # ... and where more of its turns counted though the processor was slow
FIELDS = ["operation", "type", "shape", "mode", "threads", "values", "contestant", "owner", "seconds", "low", "high", "turns", "calls",
          "gelem", "share", "ratio", "ulp", "others", "slow"]


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.machine()


def compiler():
    try:
        return subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def duration(seconds):
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}"
    return ""


class RowResult:
    """The results of one row, and what follows from them."""

    def __init__(self, row, results):
        self.row, self.results = row, results
        ceilings = {r["contestant"]: r for r in results if r["rival"] == "ceiling"}
        names = ("three streams",) if row.backward else ("read",) if row.operation == "logsumexp" else CEILINGS[row.mode]
        found = [ceilings[name] for name in names if name in ceilings]
        self.ceiling = min(found, key=lambda r: r["seconds"]) if found else None
        if row.mode == "stream" and found and not row.backward and row.operation != "logsumexp":
            self.ceiling = found[0]  # a share of the non-temporal copy, as the bar says
        rivals = [r for r in results if r["rival"] not in ("ceiling", "libsoftmax")]
        owned = [r for r in rivals if r["owner"] != "fresh" and not self.wrong(r)]
        self.best = min(owned, key=lambda r: r["seconds"]) if owned else None
        self.ours = next((r for r in results if r["contestant"] == "libsoftmax"), None)
        for r in results:
            r["share"] = self.ceiling["seconds"] / r["seconds"] if self.ceiling else None
            r["ratio"] = self.best["seconds"] / r["seconds"] if self.best else None

    def wrong(self, result):
        """Off by more than a quarter: it has not done the work."""
        return result["ulp"] is not None and not result["ulp"] < 2.0**(FORMATS[self.row.result_type][0] - 2)

    def named(self, contestant):
        return next((r for r in self.results if r["contestant"] == contestant), None)


def percent(share):
    return "" if share is None else f"{100 * share:.0f} %"


def number(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


class Report:
    def __init__(self, given):
        self.given = given
        self.rows, self.events, self.failures = {}, [], 0

    def row(self, row, message):
        self.rows[row] = RowResult(row, message["results"])
        self.rows[row].others, self.rows[row].slow = message["others"], message["slow"]

    def event(self, message):
        self.events.append(message)
        if "missing" in message:
            print(f"missing: {message['missing']}: {message['why']}", flush=True)
        if "failed" in message:
            print(f"failed: {message['failed']} at {message['row']}: {message['why']}", flush=True)

    def broken(self, threads, status):
        self.failures += 1
        print(f"bench: the process for {threads} threads ended with status {status}", flush=True)

    def line(self, row):
        result = self.rows[row]
        words = f"{row.title:46}"
        if result.ours:
            words += f" {result.ours['gelem']:6.2f} Gelem/s {percent(result.ours['share']):>5} of {result.ceiling['contestant']}"
        if result.ours and result.best:
            words += f", {result.ours['ratio']:.2f} x {result.best['contestant']}"
        if result.others > BUSY:
            words += f" (others took {percent(result.others)} of the processors)"
        if result.slow > SLOW:
            words += f" (the processor was slow in {percent(result.slow)} of the turns)"
        return words

    def table(self, result):
        row = result.row
        lines = [f"### {row.operation} {row.type} {row.shape_text}, " +
                 {"cache": "in cache", "stream": "out of cache", "cold": "cold single call"}[row.mode] +
                 f", {row.threads} thread{'s' if row.threads > 1 else ''}" + ("" if row.values == "normal" else f", values {row.values}"), ""]
        if result.others > BUSY:
            lines += [f"Disturbed: other processes took {percent(result.others)} of the processors.", ""]
        if result.slow > SLOW:
            lines += [f"Disturbed: the processor was slow (`pace.c`) in {percent(result.slow)} of the turns, and was not waited for any longer.", ""]
        lines += ["| | memory of results | median | spread | Gelem/s | of the ceiling | to best rival | max ULP |", "|---|---|---:|---:|---:|---:|---:|---:|"]
        order = sorted(result.results, key=lambda r: (r["rival"] != "libsoftmax", r["rival"] == "ceiling", r["seconds"]))
        for r in order:
            ceiling = r["rival"] == "ceiling"
            spread = (r["high"] - r["low"]) / r["seconds"]
            wrong = result.wrong(r) and "wrong" or ("" if r["ulp"] is None else f"{r['ulp']:.2f}")
            lines.append(f"| {r['contestant']} | {'' if ceiling else r['owner']} | {duration(r['seconds'])} | {percent(spread)} | "
                         f"{r['gelem']:.2f} | {percent(r['share'])} | {'' if ceiling else number(r['ratio'])} | {wrong} |")
        return lines + [""]

    def verdicts(self):
        lines = ["| bar | row | must | is | aim | is | best rival | |", "|---|---|---|---|---|---|---|---|"]
        for bar in bars():
            speeds = []
            for row in bar.rows:
                result = self.rows.get(row)
                if not result or not result.ours:
                    continue
                speeds.append(result.ours["gelem"])
                lines += self.row_verdicts(bar, row, result)
            if bar.alike and len(speeds) > 1:
                apart = max(speeds) / min(speeds) - 1
                lines.append(f"| {bar.title} | all | within {percent(bar.alike)} | {percent(apart)} | | | | {self.word(apart <= bar.alike)} |")
        return lines

    @staticmethod
    def word(good):
        return "ok" if good else "**MISSED**"

    def row_verdicts(self, bar, row, result):
        lines, ours, where = [], result.ours, row.shape_text + (" (disturbed)" if result.others > BUSY or result.slow > SLOW else "")
        best = "" if not result.best else f"{result.best['contestant']}, {result.best['gelem']:.2f} Gelem/s"
        if bar.must and ours["ratio"] is not None:
            aim = percent(bar.aim_share) if bar.aim_share else f"{bar.aim} times" if bar.aim else ""
            reached = percent(ours["share"]) if bar.aim_share else f"{ours['ratio']:.2f}" if bar.aim else ""
            lines.append(f"| {bar.title} | {where} | {bar.must} times | {ours['ratio']:.2f} | {aim} | {reached} | {best} | "
                         f"{self.word(ours['ratio'] >= bar.must)} |")
        plain = [r for r in result.results if r["rival"] == "torch" and r["owner"] != "caller"]
        if bar.fresh and plain:
            times = plain[0]["seconds"] / ours["seconds"]
            lines.append(f"| {bar.title} | {where} | {bar.fresh} times PyTorch as called | {times:.2f} | | | {plain[0]['gelem']:.2f} Gelem/s | "
                         f"{self.word(times >= bar.fresh)} |")
        if bar.beside in self.rows:
            beside = self.rows[bar.beside].ours["gelem"] / ours["gelem"] - 1
            lines.append(f"| {bar.title} | {where} | within {percent(bar.within)} of softmax {bar.beside.shape_text} | {percent(beside)} slower | | | | "
                         f"{self.word(beside <= bar.within)} |")
        forced = result.named(f"libsoftmax {bar.isa[0]}") if bar.isa else None
        if forced:
            share = forced["gelem"] / ours["gelem"]
            lines.append(f"| {bar.isa[0]} forced | {where} | {percent(bar.isa[1])} of the best set | {percent(share)} | | | | "
                         f"{self.word(share >= bar.isa[1])} |")
        return lines

    def header(self, core):
        versions = sorted({f"{m['version']} {m['is']}" for m in self.events if "version" in m})
        missing = sorted({f"{m['missing']} ({m['why']})" for m in self.events if "missing" in m})
        failed = sorted({f"{m['failed']} at {m['row']} ({m['why']})" for m in self.events if "failed" in m})
        lines = [f"# {processor()}, {datetime.date.today()}", "",
                 f"{os.cpu_count()} processors, Linux {platform.release()}, {compiler()}, Python {platform.python_version()}; "
                 f"{'the core set' if core else 'a choice of rows'}, {self.given.rounds} turns each, medians; spread is the middle half of the turns.",
                 "Memory of results: *caller* gave it; or the library allocates it, and had it before (*reused*) or gets new pages from the "
                 "system (*fresh*), by the page faults counted. The best rival is the best that is not *fresh*.",
                 f"Other processes took {percent(max((r.others for r in self.rows.values()), default=0))} of the processors at most, "
                 f"{percent(sum(r.others for r in self.rows.values()) / max(1, len(self.rows)))} on average. "
                 f"{percent(sum(r.slow for r in self.rows.values()) / max(1, len(self.rows)))} of the turns counted though the processor was slow.", "",
                 "Loaded: " + "; ".join(versions) + ".", ""]
        if missing:
            lines += ["Missing: " + "; ".join(missing) + ".", ""]
        if failed:
            lines += ["Failed: " + "; ".join(failed) + ".", ""]
        return lines

    def finish(self, core):
        lines = self.header(core)
        if core:
            lines += ["## The bar", ""] + self.verdicts() + [""]
        tables = [line for result in self.rows.values() for line in self.table(result)]
        print("\n".join(([] if core else tables) + lines))
        if self.given.results:
            os.makedirs(self.given.results, exist_ok=True)
            with open(os.path.join(self.given.results, "results.md"), "w", encoding="utf-8") as file:
                file.write("\n".join(lines + ["## Rows", ""] + tables))
            self.write_csv(os.path.join(self.given.results, "results.csv"))
            print(f"written: {os.path.relpath(self.given.results)}: results.md, results.csv{self.plots()}")

    def plots(self):
        try:
            import plots
            plots.write(os.path.join(self.given.results, "results.csv"))
        except ImportError as error:
            return f"; no plots: {error}"
        return ", " + ", ".join(sorted(name for name in os.listdir(self.given.results) if name.endswith(".svg")))

    def write_csv(self, path):
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            for row, result in self.rows.items():
                for r in result.results:
                    rounded = {key: f"{r[key]:.6g}" if isinstance(r[key], float) else r[key] for key in r}
                    writer.writerow({"operation": row.operation, "type": row.type, "shape": row.shape_text, "mode": row.mode,
                                     "threads": row.threads, "values": row.values, "others": f"{result.others:.2f}", "slow": f"{result.slow:.2f}"} | rounded)
