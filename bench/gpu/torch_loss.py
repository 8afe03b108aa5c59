"""Cross-entropy as a training step calls it, forward and backward through autograd: libsoftmax.torch beside Liger-Kernel, PyTorch and torch.compile.

    python3 bench/gpu/torch_loss.py [--quick]      Markdown table; --quick leaves torch.compile and all but the first shape out

Medians of CUDA events, the candidates in turns. The logits are the result of an operation, which receives the gradient in its backward and
drops it, so that nobody pays for a copy into `.grad`. Peak memory is what a step takes beyond what lay there before, the logits included in the
latter, in buffers of the logits' size. Who writes the gradient over the logits finds it there in the next turn; no speed here depends on values."""
import argparse

import torch

import rivals
from timing import in_turns

SHAPES = [(8192, 128256, torch.bfloat16), (16384, 32000, torch.bfloat16), (8192, 128256, torch.float32)]


class Producer(torch.autograd.Function):
    """Stands for the layer before the loss: its output is memory that lies there already."""

    @staticmethod
    def forward(ctx, weight, logits):
        return torch.empty(0, dtype=logits[0].dtype, device=logits[0].device).set_(logits[0])

    @staticmethod
    def backward(ctx, gradient):
        return None, None


def step(loss, logits, targets):
    """One forward and backward as a function of no arguments, which returns the loss."""
    weight = torch.zeros((), device=logits.device, requires_grad=True)

    def run():
        result = loss(Producer.apply(weight, [logits]), targets)
        result.backward()
        return result.detach()
    return run


def losses(quick):
    """{name: (loss, whether it writes over the logits)} of what is installed."""
    from libsoftmax import torch as ours

    found = {"libsoftmax.torch": (ours.cross_entropy, False),
             "libsoftmax.torch, inplace": (lambda x, t: ours.cross_entropy(x, t, inplace=True), True),
             "PyTorch": (torch.nn.functional.cross_entropy, False)}
    if not quick:
        found["torch.compile"] = (torch.compile(torch.nn.functional.cross_entropy, dynamic=False), False)
    liger = rivals.liger_loss()
    if liger:
        found["Liger-Kernel"] = (liger, True)
    return found


def peak(run, size):
    """The most memory that a step holds beyond what was there before, in buffers of `size` bytes."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / size


def table(say=print, quick=False, record=None):
    say("\n## cross-entropy through autograd, forward and backward: ms (peak memory in buffers of the logits' size)\n")
    found = losses(quick)
    say("| type | rows x columns | copy | " + " | ".join(found) + " |\n|---|---|---:|" + "---:|" * len(found))
    for rows, columns, dtype in SHAPES[:1] if quick else SHAPES:
        logits = torch.empty(rows, columns, dtype=dtype, device="cuda")
        for r in range(0, rows, 1024):
            logits[r:r + 1024].normal_().mul_(3)
        targets = torch.randint(columns, (rows,), device="cuda")
        runs = {name: step(loss, logits.clone() if over else logits, targets) for name, (loss, over) in found.items()}
        values = {name: run().item() for name, run in runs.items()}
        expected = values["libsoftmax.torch"]
        assert all(abs(value - expected) < 0.01 * expected for value in values.values()), values
        peaks = {name: peak(run, logits.nbytes) for name, run in runs.items()}
        target = torch.empty_like(logits)
        times = in_turns({"copy": lambda: target.copy_(logits), **runs}, 5 if quick else 9)  # noqa: B023
        if record:
            for name, (seconds, spread) in times.items():
                record("torch_loss", "cross_entropy", str(dtype)[6:], rows, columns, name, seconds, spread, 2 * logits.nbytes,
                       times["copy"][0] / seconds)
        say(f"| {str(dtype)[6:]} | {rows} x {columns} | {1e3 * times['copy'][0]:.2f} | "
            + " | ".join(f"{1e3 * times[name][0]:.2f} ({peaks[name]:.2f})" for name in found) + " |")
        del runs, logits, target
        torch.cuda.empty_cache()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}; {rivals.installed()}")
    table(quick=arguments.quick)
