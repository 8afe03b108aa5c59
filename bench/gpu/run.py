"""make bench-gpu: the library's CUDA kernels beside the ceilings and the rivals, in one run, in turns.

python3 bench/gpu/run.py --library build/libsoftmax.so --out build/bench-gpu [--quick] [--widths 64,1024] [--only softmax,backward,...]
Writes results.csv, results.md and plots (SVG). Without a GPU or PyTorch it says so and ends well."""
import argparse
import csv
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
WIDTHS = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144]
ODD_WIDTHS = [100, 513, 1000, 2049, 4097, 10007, 32001, 50257, 128256, 151936, 202048]
LOSSES = [(32768, 4096), (16384, 32000), (8192, 128256), (4096, 262144)]
SMALL = [(1, 128256), (1, 262144), (16, 128256), (16, 262144)] + [(r, c) for r in (64, 128, 512) for c in (32000, 128256)]
FIELDS = ["table", "operation", "type", "rows", "columns", "who", "seconds", "spread", "bytes", "share_of_copy", "ulp", "hash"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default="build/libsoftmax.so")
    parser.add_argument("--out", default="build/bench-gpu")
    parser.add_argument("--quick", action="store_true", help="fewer widths, rounds and rivals")
    parser.add_argument("--rungs", action="store_true", help="every kernel of the library, not only the chosen one")
    parser.add_argument("--widths", type=lambda words: [int(word) for word in words.split(",")], help="of the forwards and backwards: 1024,50257")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile, which takes seconds a width and type to compile")
    parser.add_argument("--only", default="softmax,log_softmax,backward,cross_entropy,small,ladder,axes,options,exponential,package")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("bench-gpu: PyTorch is not installed here; nothing was measured")
        return 0
    if not torch.cuda.is_available():
        print("bench-gpu: there is no GPU here; nothing was measured")
        return 0
    sys.path.insert(0, str(HERE))
    import ladder
    import options
    import tables
    from library import Library
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    bench = tables.Bench(Library(arguments.library), out, arguments.quick, arguments.rungs, not arguments.no_compile)
    bench.head(commit())
    widths = WIDTHS + ODD_WIDTHS
    if arguments.quick:
        widths = [64, 1024, 4096, 32768, 131072, 1000, 50257]
    widths = arguments.widths or widths
    wanted = arguments.only.split(",")
    if "softmax" in wanted:
        bench.forward(widths, log=False)
    if "log_softmax" in wanted:
        bench.forward(widths, log=True)
    if "backward" in wanted:
        bench.backward(widths, log=False)
        bench.backward(widths if arguments.quick or arguments.widths else WIDTHS, log=True)
    if "cross_entropy" in wanted:
        bench.cross_entropy(LOSSES)
    if "small" in wanted:
        bench.small(SMALL)
    if "ladder" in wanted:
        ladder.rungs(bench)
    if "axes" in wanted:
        ladder.axes(bench)
    if "options" in wanted:
        options.table(bench)
    if "exponential" in wanted:
        bench.exponential(build_exponential(out), [512, 4096, 32768], WIDTHS if not arguments.quick else [64, 1024, 16384])
    if "package" in wanted:
        package(bench)
    with open(out / "results.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(bench.rows)
    (out / "results.md").write_text("\n".join(bench.lines) + "\n")
    try:
        import plots
        plots.draw(bench.rows, out)
    except ImportError:
        print("bench-gpu: matplotlib is not installed here; no plots")
    print(f"bench-gpu: {out}/results.md, results.csv")
    return 0


def package(bench):
    """The Python package's own tables, where it is installed: built with nvcc, `pip install .` gives it."""
    try:
        import libsoftmax.torch  # noqa: F401
        import torch_loss
        import triton_rows
    except ImportError as error:
        bench.say(f"\nThe Python package's tables were left out: {error}")
        return
    bench.free()
    torch_loss.table(bench.say, bench.quick, bench.record)
    triton_rows.table(bench.say, (64, 1000, 4096, 16384, 65536) if bench.quick else (*triton_rows.BLOCK_WIDTHS, *triton_rows.WIDE_WIDTHS))


def commit():
    try:
        return subprocess.check_output(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], text=True, stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def build_exponential(out):
    """The path of the library of exponential.cu, built now or carried along; None without nvcc."""
    made = out / "exponential.so"
    carried = HERE / "exponential.so"
    if carried.exists():
        return carried
    try:
        subprocess.check_call(["nvcc", "-arch=native", "-O3", "--fmad=false", "--ftz=false", "--prec-div=true", "-std=c++17", "-shared",
                               "-Xcompiler=-fPIC", f"-I{HERE.parent.parent / 'src' / 'numerics'}", str(HERE / "exponential.cu"), "-o", str(made)])
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"bench-gpu: exponential.cu was not built: {error}")
        return None
    return made


if __name__ == "__main__":
    sys.exit(main())
