"""The table of options: softmax with scale, bias, masks and lengths beside softmax without, and beside PyTorch's own operations for it."""
import torch

import rivals
from timing import in_turns

WIDTHS = [256, 1024, 4096, 16384, 65536]
SCALE = 0.7


def cases(x, dtype, rows, columns):
    """(name, the library's options, PyTorch's function of (x), bytes of the operands beside x and the result)."""
    make = torch.Generator("cuda").manual_seed(2)
    one_mask = (torch.rand(1, columns, generator=make, device="cuda") < 0.9).to(torch.uint8)
    full_mask = (torch.rand(1, 1 << 22, generator=make, device="cuda") < 0.9).to(torch.uint8).repeat(1, -(-rows * columns // (1 << 22)))
    full_mask = full_mask.flatten()[:rows * columns].view(rows, columns)
    bias = torch.randn(1, columns, generator=make, device="cuda").to(dtype)
    lengths = torch.randint(columns // 2, columns + 1, (rows,), generator=make, device="cuda")
    one_out, full_out = one_mask == 0, full_mask == 0
    columns_there = torch.arange(columns, device="cuda")
    softmax = torch.softmax
    yield "none", {}, lambda: softmax(x, 1), 0
    yield "scale", {"scale": SCALE}, lambda: softmax(x * SCALE, 1), 0
    yield "mask of columns", {"mask": one_mask.expand(rows, columns)}, lambda: softmax(x.masked_fill(one_out, -torch.inf), 1), 0
    yield "mask of elements", {"mask": full_mask}, lambda: softmax(x.masked_fill(full_out, -torch.inf), 1), rows * columns
    yield "bias of columns, scale", {"bias": bias.expand(rows, columns), "scale": SCALE}, lambda: softmax(x * SCALE + bias, 1), 0
    yield "lengths", {"valid_lengths": lengths}, lambda: softmax(x.masked_fill(columns_there >= lengths[:, None], -torch.inf), 1), 0
    yield "softcap", {"softcap": 20.0}, lambda: softmax(torch.tanh(x / 20) * 20, 1), 0


def table(bench):
    """% of the rate of a copy, counting the operand's bytes where it is read at every element."""
    bench.lines.append("\n## Options: softmax, % of a copy\n")
    bench.lines.append("| type | columns | option | libsoftmax | PyTorch |\n|---|---:|---|---:|---:|")
    for dtype in bench.types[:2]:
        for columns in WIDTHS:
            x, rows = bench.inputs(dtype, columns, 1 << 29)
            y = bench.matrix(1, dtype, rows, columns)
            for name, options, torch_one, more in cases(x, dtype, rows, columns):
                ours = bench.library.call("softmax", [x, y], **options)
                times = in_turns({"copy": lambda: y.copy_(x), "libsoftmax": ours, "PyTorch": torch_one}, 5 if bench.quick else bench.rounds)
                moved = 2 * x.nbytes + more
                shares = {who: times["copy"][0] * moved / (2 * x.nbytes) / seconds for who, (seconds, _) in times.items()}
                bench.say(f"| {rivals.name_of(dtype)} | {columns} | {name} | {100 * shares['libsoftmax']:.1f} | {100 * shares['PyTorch']:.1f} |")
                for who in ("libsoftmax", "PyTorch"):
                    bench.record("options", f"softmax, {name}", rivals.name_of(dtype), rows, columns, who, *times[who], moved, shares[who])
