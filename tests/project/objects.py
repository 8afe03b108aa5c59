"""objects.py SHARED_LIBRARY OBJECT...: what the compiled files hold.

- ymm registers only in kernels_avx2 and kernels_avx512, zmm only in kernels_avx512; no weak symbol in those, which
  the linker could give to other files: wide code cannot leak.
- No function of libm but fma and fmaf: results must not depend on the machine's libm. src/reference may: its functions
  are the ordinary forms, and promise nothing.
- Nothing that prints or ends the program: errors are statuses.
- Every global name begins with softmax_, so that the static library takes no name from its users either."""
import pathlib
import re
import subprocess
import sys

library, objects = sys.argv[1], [pathlib.Path(name) for argument in sys.argv[2:] for name in argument.split(";")]
failures = []
machine = subprocess.check_output(["uname", "-m"], text=True).strip()


def symbols(path, *options):
    """(type, name) of each symbol that nm lists, without versions."""
    lines = subprocess.check_output(["nm", *options, str(path)], text=True).splitlines()
    return [(line.split()[-2], line.split()[-1].partition("@")[0]) for line in lines if len(line.split()) >= 2]


libm_path = next(line.split()[2] for line in subprocess.check_output(["ldd", library], text=True).splitlines()
                 if "libm.so" in line) if "libm.so" in subprocess.check_output(["ldd", library], text=True) else None
if libm_path is None:
    libm_path = subprocess.check_output(["gcc", "-print-file-name=libm.so.6"], text=True).strip()
libm = {name for kind, name in symbols(libm_path, "-D", "--defined-only") if kind in "TWi"}
if not {"expf", "fmaf", "log1p", "floor"} <= libm:
    failures.append(f"{libm_path} does not look like libm: this test would see nothing")
forbidden = libm - {"fma", "fmaf"}

prints_or_ends = {"printf", "puts", "putchar", "fprintf", "vfprintf", "vprintf", "fputs", "fputc", "fwrite", "perror",
                  "write", "stdout", "stderr", "abort", "exit", "_exit", "quick_exit", "__assert_fail", "__printf_chk",
                  "__fprintf_chk", "longjmp", "raise"}

from_references = set()
wide_seen = set()
for path in objects:
    undefined = {name for kind, name in symbols(path, "--undefined-only")}
    if undefined & prints_or_ends:
        failures.append(f"{path.name} prints or ends the program: {', '.join(sorted(undefined & prints_or_ends))}")
    for kind, name in symbols(path, "--defined-only", "--extern-only"):
        if not re.match(r"(\.gomp_critical_user_)?softmax_", name):  # OpenMP names a critical section's lock so
            failures.append(f"{path.name} defines {name}, a global name that does not begin with softmax_")
    if "reference" in path.parts:
        from_references |= undefined & forbidden
    elif undefined & forbidden:
        failures.append(f"{path.name} calls libm: {', '.join(sorted(undefined & forbidden))}")

    if machine == "x86_64":
        code = subprocess.check_output(["objdump", "-d", "--no-show-raw-insn", str(path)], text=True)
        wide = set(re.findall(r"%([yz]mm)\d", code))
        allowed = {"kernels_avx2.c": {"ymm"}, "kernels_avx512.c": {"ymm", "zmm"}}
        own_file = re.sub(r"\.o(bj)?$", "", path.name)
        for register in sorted(wide - allowed.get(own_file, set())):
            failures.append(f"{path.name} uses {register} registers, which are for the files of their instruction set")
        wide_seen |= wide
        if own_file in allowed:
            for kind, name in symbols(path, "--defined-only"):
                if kind in "WVu":
                    failures.append(f"{path.name} defines the weak symbol {name}")

for name in sorted({name for kind, name in symbols(library, "-D", "--undefined-only")} & forbidden - from_references):
    failures.append(f"{library} imports {name} from libm")

kernels = {path.name for path in objects}
if machine == "x86_64" and {"kernels_avx2.c.o", "kernels_avx512.c.o"} <= kernels and wide_seen != {"ymm", "zmm"}:
    failures.append(f"the wide files hold only {sorted(wide_seen)}: this test reads the wrong thing")
for failure in failures:
    print("FAILED:", failure)
print(f"{len(objects)} objects, libm from {libm_path}, {len(failures)} failures")
sys.exit(bool(failures) or not objects)
