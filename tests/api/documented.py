"""documented.py MARKDOWN COMPILER INCLUDE_DIRS LIBRARY_DIR: each ```c block is a program; its output is the ```text block that follows."""
import pathlib
import re
import subprocess
import sys
import tempfile

markdown, compiler, includes, libraries = sys.argv[1:]
blocks = re.findall(r"^```(\w+)\n(.*?)^```$", pathlib.Path(markdown).read_text(), re.S | re.M)
failures, programs = [], 0
with tempfile.TemporaryDirectory() as folder:
    for i, (language, text) in enumerate(blocks):
        if language != "c":
            continue
        programs += 1
        if i + 1 == len(blocks) or blocks[i + 1][0] != "text":
            failures.append(f"program {programs} has no output beside it")
            continue
        source, program = pathlib.Path(folder, "program.c"), pathlib.Path(folder, "program")
        source.write_text(text)
        command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", *[f"-I{path}" for path in includes.split(":")], str(source), "-o",
                   str(program), f"-L{libraries}", "-lsoftmax", f"-Wl,-rpath,{libraries}"]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode:
            failures.append(f"program {programs} does not compile:\n{built.stderr}")
            continue
        ran = subprocess.run([program], capture_output=True, text=True, timeout=60)
        if ran.returncode or ran.stdout != blocks[i + 1][1]:
            failures.append(f"program {programs}, status {ran.returncode}, printed\n{ran.stdout}not\n{blocks[i + 1][1]}")
for failure in failures:
    print("FAILED:", failure)
print(f"{markdown}: {programs} programs, {len(failures)} failures")
sys.exit(bool(failures) or programs == 0)
