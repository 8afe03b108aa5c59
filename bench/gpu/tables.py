"""The tables of make bench-gpu."""
import ctypes
import datetime
import subprocess

import torch

import exactness
import rivals
from timing import in_turns, replayed

NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}
OURS = "libsoftmax"


def usable(candidates):
    """Those that are there, and run; the library's own must."""
    return {who: function for who, function in candidates.items() if function and (who.startswith(OURS) or rivals.usable(who, function))}


def small_bar(dtype, rows, columns, copy):
    """Microseconds that small work is meant to take at most, on an H200: one row, 16 rows of float32, and else from what a copy takes."""
    if rows == 1:
        return 4.5 if dtype == torch.float32 else 3.5
    if rows == 16 and dtype == torch.float32:
        return 6.0 if columns < 200000 else 9.0
    return max(1.25 * copy, copy + 2.5)


class Bench:
    def __init__(self, library, out, quick, rungs, compiles=True):
        self.library, self.out, self.quick = library, out, quick
        self.rungs = library.kernels() if rungs else []
        self.compiles = compiles and not quick
        self.rounds = 7 if quick else 15
        self.types = [torch.float32, torch.bfloat16] if quick else [torch.float32, torch.bfloat16, torch.float16]
        self.rows, self.lines = [], []
        self.memory = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(3)]
        self.scores = torch.empty(1 << 28, device="cuda").normal_(generator=torch.Generator("cuda").manual_seed(1)).mul_(3)

    def say(self, line):
        print(line, flush=True)
        self.lines.append(line)

    def head(self, commit):
        properties = torch.cuda.get_device_properties(0)
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout
        self.say(f"# GPU benchmarks, {datetime.date.today()}")
        self.say(f"\n{properties.name}, driver {driver.strip()}, {properties.multi_processor_count} multiprocessors; libsoftmax "
                 f"{self.library.version()} at commit {commit}; {rivals.installed()}.")
        self.say("Shares are of a device-to-device cudaMemcpy of as many bytes, in the same run and in turns; medians. Where a rival is ahead, its "
                 "figure is bold.")
        copies = {"cudaMemcpy": lambda: self.memory[1].copy_(self.memory[0]),
                  "copy kernel": rivals.copy_kernel(self.memory[0].view(torch.float32), self.memory[1].view(torch.float32)),
                  "three streams": rivals.three_streams(*(m.view(torch.float32) for m in self.memory))}
        times = in_turns(copies)
        self.say("\n| ceiling | GB/s |\n|---|---:|")
        for name, (seconds, _) in times.items():
            moved = (3 if name == "three streams" else 2) * (1 << 30)
            self.say(f"| {name} | {moved / seconds * 1e-9:.0f} |")
            self.record("ceilings", "copy", "float32", 1, 1 << 28, name, seconds, 0, moved, 0)

    def free(self):
        """Gives the tables' arrays back; the last tables make their own."""
        self.memory, self.scores = [], None
        torch.cuda.empty_cache()

    def record(self, table, operation, kind, rows, columns, who, seconds, spread, moved, share, ulp="", digest=""):
        self.rows.append(dict(table=table, operation=operation, type=kind, rows=rows, columns=columns, who=who, seconds=f"{seconds:.4g}",
                              spread=f"{spread:.3g}", bytes=moved, share_of_copy=f"{share:.4f}", ulp=ulp, hash=digest))

    def matrix(self, which, dtype, rows, columns):
        return self.memory[which].view(dtype)[:rows * columns].view(rows, columns)

    def inputs(self, dtype, columns, total):
        rows = max(total // dtype.itemsize // columns, 1)
        x = self.matrix(0, dtype, rows, columns)
        x.copy_(self.scores[:rows * columns].view(rows, columns))
        return x, rows

    def table(self, title, operation, dtype, cases, columns_of_bytes):
        """cases: (rows, columns, {who: function}, {who: result}, exact of few rows or None). One line a case, a column a candidate."""
        names = []
        lines = []
        for rows, columns, candidates, results, exact in cases:
            moved = columns_of_bytes * rows * columns * dtype.itemsize
            half = moved // 2
            source, target = self.memory[0][:min(half, 1 << 30)], self.memory[2][:min(half, 1 << 30)]
            candidates = {"cudaMemcpy": lambda a=source, b=target: b.copy_(a), **usable(candidates)}
            times = in_turns(candidates, self.rounds)
            copy = times["cudaMemcpy"][0] * half / source.numel()
            cells = {}
            for name, (seconds, spread) in times.items():
                ulp = digest = ""
                if name in results and exact is not None:
                    result = results[name]()[:exact.shape[0]]
                    ulp = f"{exactness.ulps(result, exact):.4g}"
                    digest = exactness.hash_of(result[:2]) if name.startswith(OURS) else ""
                share = copy / seconds
                self.record(title, operation, NAMES[dtype], rows, columns, name, seconds, spread, moved, share, ulp, digest)
                if name != "cudaMemcpy":
                    cells[name] = (100 * share, ulp)
                    if name not in names:
                        names.append(name)
            best = max((v[0] for k, v in cells.items() if not k.startswith(OURS)), default=0)
            ours = cells.get(OURS, (0, ""))[0]
            line = [str(columns)]
            for name in names:
                if name not in cells:
                    line.append("")
                    continue
                share, ulp = cells[name]
                text = f"{share:.1f}"
                if share == best and best > ours and not name.startswith(OURS):
                    text = f"**{text}**"
                line.append(text + (f" ({float(ulp):.3g})" if ulp else ""))
            lines.append(line)
            print("   ", NAMES[dtype], rows, *line, flush=True)
        self.lines.append(f"\n## {title}, {NAMES[dtype]}: % of a copy (largest error in ULP)\n")
        self.lines.append("| columns | " + " | ".join(names) + " |\n|---:|" + "---:|" * len(names))
        for line in lines:
            self.lines.append("| " + " | ".join(line + [""] * (len(names) + 1 - len(line))) + " |")

    # ---- Forwards ---------------------------------------------------------------------------------------------------

    def forward(self, widths, log):
        name = "log_softmax" if log else "softmax"
        for dtype in self.types:
            self.table(name, name, dtype, (self.forward_case(dtype, columns, log) for columns in widths), 2)

    def forward_case(self, dtype, columns, log):
        name = "log_softmax" if log else "softmax"
        x, rows = self.inputs(dtype, columns, (1 << 30) if dtype == torch.float32 else (1 << 29))
        y = self.matrix(1, dtype, rows, columns)
        candidates = {OURS: self.library.call(name, [x, y])}
        for kernel in self.rungs:
            candidates[f"{OURS} {kernel}"] = self.library.call(name, [x, y], kernel=kernel)
        candidates["PyTorch"] = rivals.torch_softmax(x, y, log)
        candidates["cuDNN"] = rivals.cudnn(x, y, log)
        if not log:
            candidates["Triton"] = rivals.triton_softmax(x, y)
        if not self.quick:
            candidates["torch.compile"] = rivals.torch_compiled(x, log) if self.compiles else None
            candidates["QuACK"] = None if log else rivals.quack_softmax(x)
            candidates["Liger"] = None if log else rivals.liger_softmax(x)
        results = {key: (lambda f=function: y if (r := self.poisoned(y, f)) is None or not isinstance(r, torch.Tensor) else r)
                   for key, function in candidates.items() if function}
        few = x[:min(rows, 64 if columns <= 65536 else 4)]
        return rows, columns, candidates, results, exactness.softmax_exact(few, log)

    def poisoned(self, y, function):
        """The function's result over an output that was NaN before."""
        y[:64].fill_(float("nan"))
        return function()

    # ---- Backwards --------------------------------------------------------------------------------------------------

    def backward(self, widths, log):
        name = ("log_softmax" if log else "softmax") + "_backward"
        for dtype in self.types:
            self.table(name, name, dtype, self.backward_cases(dtype, widths, log), 3)

    def backward_cases(self, dtype, widths, log):
        for columns in widths:
            case = self.backward_case(dtype, columns, log)
            dy = self.matrix(0, dtype, case[0], columns)[:64]
            before = dy.clone()
            yield case
            if not torch.equal(dy, before):  # or all time gradients of gradients, which become 0
                raise RuntimeError(f"a candidate wrote over dy, {columns} columns")

    def backward_case(self, dtype, columns, log):
        total = (1 << 30) if dtype == torch.float32 else (1 << 29)
        x, rows = self.inputs(dtype, columns, total)
        y, dx = self.matrix(1, dtype, rows, columns), self.matrix(2, dtype, rows, columns)
        rivals.torch_softmax(x, y, log)()
        x.copy_(self.scores.flip(0)[:rows * columns].view(rows, columns) if columns < 1024 else x.flip(1))
        name = ("log_softmax" if log else "softmax") + "_backward"
        candidates = {OURS: self.library.call(name, [y, x, dx])}
        for kernel in self.rungs:
            candidates[f"{OURS} {kernel}"] = self.library.call(name, [y, x, dx], kernel=kernel)
        candidates["PyTorch"] = rivals.torch_backward(y, x, dx, log)
        candidates["cuDNN"] = rivals.cudnn(y, dx, log, x)
        return rows, columns, candidates, {}, None

    # ---- Cross-entropy ----------------------------------------------------------------------------------------------

    def cross_entropy(self, shapes):
        self.memory = self.memory[:0]
        torch.cuda.empty_cache()
        for dtype in self.types:
            lines = []
            for rows, columns in shapes:
                lines.append(self.loss_case(dtype, rows, columns))
                torch.cuda.empty_cache()
            self.lines.append(f"\n## cross-entropy with gradient, {NAMES[dtype]}: % of one read and one write\n")
            names = list(dict.fromkeys(name for _, cells in lines for name in cells))
            self.lines.append("| rows x columns | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
            for shape, cells in lines:
                self.lines.append(f"| {shape} | " + " | ".join(f"{100 * cells[n]:.1f}" if n in cells else "" for n in names) + " |")
        self.memory = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(3)]

    def loss_case(self, dtype, rows, columns):
        x = torch.empty(rows, columns, dtype=dtype, device="cuda")
        for r in range(0, rows, 1024):
            x[r:r + 1024].normal_().mul_(3)
        gradient = torch.empty_like(x)
        targets = torch.randint(0, columns, (rows,), device="cuda")
        loss = torch.empty((), device="cuda")
        candidates = {"cudaMemcpy": lambda: gradient.copy_(x), OURS: self.library.call("cross_entropy", [x, targets, loss, gradient])}
        spoiled = x.clone()
        candidates[OURS + " in place"] = self.library.call("cross_entropy", [spoiled, targets, loss, spoiled])
        candidates["PyTorch"] = rivals.torch_cross_entropy(x, targets)
        candidates["Liger"] = rivals.liger_cross_entropy(x, targets)
        if not self.quick:
            candidates["torch.compile"] = rivals.torch_compiled_cross_entropy(x, targets) if self.compiles else None
            candidates["QuACK"] = rivals.quack_cross_entropy(x, targets)
        times = in_turns(usable(candidates), 7)
        copy = times.pop("cudaMemcpy")[0]
        cells = {}
        for name, (seconds, spread) in times.items():
            cells[name] = copy / seconds
            self.record("cross_entropy", "cross_entropy", NAMES[dtype], rows, columns, name, seconds, spread, 2 * x.nbytes, copy / seconds)
        print("   ", NAMES[dtype], rows, columns, {n: round(100 * s, 1) for n, s in cells.items()}, flush=True)
        return f"{rows} x {columns}", cells

    # ---- Small work -------------------------------------------------------------------------------------------------

    def small(self, shapes):
        """One pair of arrays, as a server's next token has it: what a call reads and writes lies in the L2 cache where it fits. The bar is what the library's
        own call is meant to take; bold where it does."""
        makers = {"copy": lambda x, y: lambda: y.copy_(x), OURS: lambda x, y: self.library.call("softmax", [x, y])}
        for kernel in self.rungs:
            if kernel in ("cluster", "split", "block"):
                makers[f"{OURS} {kernel}"] = lambda x, y, kernel=kernel: self.library.call("softmax", [x, y], kernel=kernel)
        makers |= {"PyTorch": rivals.torch_softmax, "Triton": rivals.triton_softmax, "cuDNN": rivals.cudnn, "QuACK": lambda x, y: rivals.quack_softmax(x)}
        self.lines.append("\n## Small work, replayed in a graph: microseconds a call\n")
        self.lines.append("| type | rows x columns | bar | " + " | ".join(makers) + " |\n|---|---|---:|" + "---:|" * len(makers))
        for dtype in self.types[:2]:
            for rows, columns in shapes:
                bar = 0.0
                x, y = self.matrix(0, dtype, rows, columns), self.matrix(1, dtype, rows, columns)
                x.copy_(self.scores[:rows * columns].view(rows, columns))
                cells = []
                for who, make in makers.items():
                    function = make(x, y)
                    if not who.startswith(OURS):
                        function = rivals.usable(who, function)
                    if not function:
                        cells.append("")
                        continue
                    try:
                        seconds, spread = replayed([function])
                    except RuntimeError as error:
                        if who.startswith(OURS):
                            raise
                        print(f"bench-gpu: {who} was left out: it cannot be captured: {str(error).splitlines()[0]}")
                        cells.append("")
                        continue
                    cells.append(f"{seconds * 1e6:.2f}")
                    if who == "copy":
                        bar = small_bar(dtype, rows, columns, seconds * 1e6)
                    elif who == OURS and seconds * 1e6 <= bar:
                        cells[-1] = f"**{cells[-1]}**"
                    self.record("small", "softmax", NAMES[dtype], rows, columns, who, seconds, spread, 2 * x.nbytes, 0)
                self.say(f"| {NAMES[dtype]} | {rows} x {columns} | {bar:.2f} | " + " | ".join(cells) + " |")

    # ---- The exponential --------------------------------------------------------------------------------------------

    def exponential(self, path, widths, textbook_widths):
        if not path:
            return
        run = ctypes.CDLL(str(path)).exponential_run

        def call(form, passes, x, y):
            arguments = (0 if x.dtype == torch.float32 else 1, form, passes, ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()),
                         ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
            return lambda: run(*arguments, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
        self.lines.append("\n## The exponential in one and the same kernel: % of a copy (error in ULP)\n")
        self.lines.append("| type | columns | expf | __expf | pair |\n|---|---:|---:|---:|---:|")
        for dtype in (torch.float32, torch.bfloat16):
            for columns in widths:
                x, rows = self.inputs(dtype, columns, 1 << 29)
                y = self.matrix(1, dtype, rows, columns)
                forms = {"expf": call(0, 1, x, y), "__expf": call(1, 1, x, y), "pair": call(2, 1, x, y)}
                times = in_turns({"copy": lambda: y.copy_(x), **forms}, self.rounds)
                cells = []
                for name, function in forms.items():
                    function()
                    exact = torch.exp(x[:64].double() - 8)
                    if name == "pair":  # 2^(4 - kb) e^x, kb = round(8 log2 e) = 12
                        exact = torch.exp(x[:64].double()) * 2.0 ** (4 - 12)
                    share = times["copy"][0] / times[name][0]
                    error = exactness.ulps(y[:64], exact)
                    cells.append(f"{100 * share:.1f} ({error:.3g})")
                    self.record("exponential", "exp", NAMES[dtype], rows, columns, name, *times[name], 2 * x.nbytes, share, f"{error:.4g}")
                self.say(f"| {NAMES[dtype]} | {columns} | " + " | ".join(cells) + " |")
        self.lines.append("\n## Three textbook forms by width: % of a copy\n")
        self.lines.append("| type | columns | three passes, expf | three passes, __expf | one program a row (Triton) | times three passes, __expf |\n|---|---:|---:|---:|---:|---:|")
        for dtype in (torch.float32, torch.bfloat16):
            for columns in textbook_widths:
                x, rows = self.inputs(dtype, columns, 1 << 29)
                y = self.matrix(1, dtype, rows, columns)
                forms = {"three passes, expf": call(0, 3, x, y), "three passes, __expf": call(1, 3, x, y),
                         "one program a row": rivals.triton_softmax(x, y)}
                times = in_turns({"copy": lambda: y.copy_(x), **{k: v for k, v in forms.items() if v}}, self.rounds)
                cells = []
                for name in forms:
                    share = times["copy"][0] / times[name][0] if name in times else 0
                    cells.append(f"{100 * share:.1f}" if name in times else "")
                    if name in times:
                        self.record("textbook", "softmax", NAMES[dtype], rows, columns, name, *times[name], 2 * x.nbytes, share)
                one = times.get("one program a row")
                cells.append(f"{times['three passes, __expf'][0] / one[0]:.2f}" if one else "")
                self.say(f"| {NAMES[dtype]} | {columns} | " + " | ".join(cells) + " |")
