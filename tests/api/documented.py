"""documented.py MARKDOWN COMPILER INCLUDE_DIRS BUILD_DIR SOURCE_DIR: what a page shows is what comes out.

A fenced block that begins with
    ```c [FILE]               is a program (FILE's very text, if named); its output is the ```text block that follows.
    ```console                has lines "$ command", continued by a backslash, each above what it prints.
    ```console times vary     the same; of its output only libsoftmax's rows are compared, up to their hash of bits.
    ```console elsewhere      was run by hand (it takes long, or needs what a test may not use): not run here.
Commands run in one empty folder with links to the repository's own and to the build folder as `build`."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

markdown, compiler, includes, build, source = sys.argv[1:]
blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", pathlib.Path(markdown).read_text(), re.S | re.M)
failures, ran = [], 0


def run(command, folder):
    environment = dict(os.environ, PATH=f"{build}:{os.environ['PATH']}", LD_LIBRARY_PATH=build)
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)


def program(info, text, output, folder):
    if info[1:] and pathlib.Path(source, info[1]).read_text() != text:
        failures.append(f"the program is not {info[1]}")
    if output is None:
        failures.append(f"a program has no output beside it:\n{text}")
        return
    pathlib.Path(folder, "program.c").write_text(text)
    built = run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", *[f"-I{path}" for path in includes.split(":")], "program.c", "-o",
                 "program", f"-L{build}", "-lsoftmax", "-lm"], folder)
    if built.returncode:
        failures.append(f"a program does not compile:\n{text}{built.stdout}")
        return
    done = run(["./program"], folder)
    if done.returncode or done.stdout != output:
        failures.append(f"a program, status {done.returncode}, printed\n{done.stdout}not\n{output}")


def hashes(output):
    """libsoftmax's rows up to their hash, by instruction set; a machine without one of them does not print its row."""
    rows = re.findall(r"^(?:libsoftmax )(\w+) +(.*? [0-9a-f]{16}) ", output, re.M)
    return {isa: re.sub(" +", " ", row) for isa, row in rows}


def command(text, expected, times_vary, folder):
    done = run(["bash", "-c", text], folder)
    if not times_vary:
        if done.stdout != expected:
            failures.append(f"$ {text}printed\n{done.stdout}not\n{expected}")
        return
    shown, printed = hashes(expected), hashes(done.stdout)
    alike = [isa for isa in printed if printed[isa] == shown.get(isa, printed["portable"])] if printed else []
    if done.returncode or not shown or len(alike) != len(printed) or not printed:
        failures.append(f"$ {text}status {done.returncode}, libsoftmax's rows\n{printed}\nnot\n{shown}\nin\n{done.stdout}")


with tempfile.TemporaryDirectory() as folder:
    for name in os.listdir(source):
        if not name.startswith((".", "build")):
            os.symlink(os.path.join(source, name), os.path.join(folder, name))
    os.symlink(build, os.path.join(folder, "build"))
    for i, (language, text) in enumerate(blocks):
        info = language.split()
        if info[:1] == ["c"]:
            ran += 1
            program(info, text, blocks[i + 1][1] if i + 1 < len(blocks) and blocks[i + 1][0] == "text" else None, folder)
        elif info[:1] == ["console"] and info[1:] != ["elsewhere"]:
            if info[1:] not in ([], ["times", "vary"]) or not text.startswith("$ "):
                failures.append(f"a block that begins ```{language} has no meaning here, or does not begin with '$ '")
                continue
            for typed, output in re.findall(r"^\$ ((?:.*\\\n)*.*\n)((?:(?!\$ ).*\n)*)", text, re.M):
                ran += 1
                command(typed, output, bool(info[1:]), folder)
for failure in failures:
    print("FAILED:", failure)
print(f"{markdown}: {ran} programs and commands, {len(failures)} failures")
sys.exit(bool(failures) or ran == 0)
