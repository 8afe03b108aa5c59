"""fast_math.py SOURCE COMPILE_COMMANDS: a compile with fast-math is refused by every file with arithmetic in it.

Under -ffast-math and -Ofast the contract cannot be kept."""
import json
import pathlib
import shlex
import subprocess
import sys

source, commands = pathlib.Path(sys.argv[1]).resolve(), json.loads(pathlib.Path(sys.argv[2]).read_text())
failures = []
checked = 0
for entry in commands:
    path = pathlib.Path(entry["file"]).resolve()
    if source / "src" not in path.parents:
        continue
    command = shlex.split(entry["command"])
    command = command[:command.index("-o")] + ["-fsyntax-only", str(path)]
    plain = command[:1] + ["-MM"] + [word for word in command[1:] if word not in ("-c", "-fsyntax-only")]
    if "src/numerics/" not in subprocess.check_output(plain, text=True, cwd=entry["directory"]):
        continue  # no arithmetic in it
    for flag in ("-ffast-math", "-Ofast"):
        checked += 1
        result = subprocess.run(command + [flag], cwd=entry["directory"], capture_output=True, text=True)
        if result.returncode == 0:
            failures.append(f"{path.relative_to(source)} compiles with {flag}")
        elif "fast" not in result.stderr or "#error" not in result.stderr:
            failures.append(f"{path.relative_to(source)} with {flag} fails for another reason: {result.stderr[:300]}")
for failure in failures:
    print("FAILED:", failure)
print(f"{checked} compilations with fast-math, {len(failures)} failures")
sys.exit(bool(failures) or checked == 0)
