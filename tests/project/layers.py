"""layers.py SOURCE: who may include what; the arrows point down only. First it plants faults, which it must find."""
import fnmatch
import pathlib
import re
import sys
import tempfile

C_STANDARD = {"assert.h", "complex.h", "ctype.h", "errno.h", "fenv.h", "float.h", "inttypes.h", "limits.h", "locale.h",
              "math.h", "setjmp.h", "signal.h", "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h", "stddef.h",
              "stdint.h", "stdio.h", "stdlib.h", "string.h", "tgmath.h", "threads.h", "time.h", "wchar.h"}
PUBLIC = {"softmax.h", "softmax_reference.h"}

# (files, what they may include). The first pattern that fits a file counts. Project files are patterns of paths, whose `*` does
# not stop at a slash; "<c>" is the C standard library, "<system>" any header outside the project.
# The border between calls and kernels is made of headers that both may see.
BORDER = ["include/*", "src/kernels.h", "src/dispatch.h", "src/fenv_guard.h", "src/api_state.h"]

RULES = [
    ("include/*", ["include/*", "<c>", "dlpack/dlpack.h"]),
    ("src/numerics/*", ["src/numerics/*", "<c>"]),
    ("src/reference/*", ["include/*", "src/reference/*", "<c>"]),
    ("src/cpu/*", [*BORDER, "src/numerics/*", "src/cpu/*", "<system>"]),
    ("src/cuda/*", [*BORDER, "src/numerics/*", "src/cuda/*", "<system>"]),
    ("src/distributed/*", [*BORDER, "src/distributed/*", "<system>"]),
    ("src/kernels.h", ["include/*", "src/numerics/*", "<c>"]),
    ("src/*", [*BORDER, "src/api*.h", "<system>"]),
    ("cli/*", ["include/*", "cli/*", "<system>"]),
    ("python/*", ["include/*", "python/*", "<system>"]),
    ("examples/*", ["include/*", "examples/*", "<system>"]),
    ("bench/*", ["include/*", "bench/*", "<system>"]),
    ("tests/oracle/*", ["include/*", "tests/oracle/*", "<system>"]),  # never a kernel that ships
]


def resolve(source, file, name):
    """The project's file that `#include name` in `file` means, as a path from the root; else the name itself."""
    for folder in (file.parent, source / "include", source / "src", source / "tests", source):
        if (folder / name).is_file():
            path = (folder / name).resolve()
            if source in path.parents:
                return path.relative_to(source).as_posix(), True
    return name, False


def allowed(target, ours, permitted):
    for what in permitted:
        if what == "<c>" and not ours and target in C_STANDARD:
            return True
        if what == "<system>" and not ours and target.split("/")[0] not in ("src", "cli", "tests", ".."):
            return True
        if what[0] != "<" and fnmatch.fnmatchcase(target, what):
            return True
    return False


def violations(source):
    source = source.resolve()
    found, files, includes = [], 0, 0
    for top in ("include", "src", "cli", "python", "examples", "bench", "tests"):
        for file in sorted((source / top).rglob("*")):
            if file.suffix not in (".c", ".h", ".cc", ".cu", ".cuh"):
                continue
            path = file.relative_to(source).as_posix()
            permitted = next((rule[1] for rule in RULES if fnmatch.fnmatchcase(path, rule[0])), None)
            if permitted is None:
                continue
            files += 1
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = re.match(r'\s*#\s*include\s+(["<][^">]*[">]|\w+)', line)
                if not match:
                    continue
                includes += 1
                if match[1][0] not in '"<':
                    continue  # a macro that names a file
                target, ours = resolve(source, file, match[1][1:-1])
                if not allowed(target, ours, permitted):
                    found.append(f"{path}:{number} includes {target}; it may include {', '.join(permitted)}")
    return found, files, includes


def self_test():
    """Each planted include must be reported."""
    planted = {"cli/a.c": '#include "../src/kernels.h"', "examples/a.c": '#include "kernels.h"',
               "src/numerics/a.h": "#include <softmax.h>", "src/numerics/b.h": "#include <omp.h>",
               "src/cpu/a.c": '#include "cuda/a.h"', "src/cuda/a.h": '#include "../cpu/a.h"',
               "src/api.c": '#include "numerics/a.h"', "src/api_b.c": '# include "cpu/a.h"',
               "tests/oracle/a.c": '#include "numerics/a.h"', "include/softmax.h": "#include <unistd.h>"}
    right = {"src/kernels.h": "#include <softmax.h>", "src/cpu/a.h": "", "bench/good.c": "#include <softmax.h>"}
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder)
        for name, text in {**planted, **right}.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text + "\n")
        reported = {line.split(":")[0] for line in violations(source)[0]}
    if reported != planted.keys():
        print("FAILED: self-test: unseen", sorted(planted.keys() - reported),
              "wrongly reported", sorted(reported - planted.keys()))
        return 1
    print(f"self-test: all {len(planted)} planted faults were seen")
    return 0


def main():
    status = self_test()
    found, files, includes = violations(pathlib.Path(sys.argv[1]))
    for line in found:
        print("FAILED:", line)
    print(f"{files} files, {includes} includes, {len(found)} against the layers")
    return status or bool(found) or files == 0


sys.exit(main())
