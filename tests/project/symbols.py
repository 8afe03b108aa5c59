"""symbols.py SOURCE LIBRARY: the shared library exports what the public headers declare, and nothing else.

Every name begins with softmax_, carries a version node, and the SONAME is libsoftmax.so.0."""
import pathlib
import re
import subprocess
import sys

source, library = pathlib.Path(sys.argv[1]), sys.argv[2]
failures = []

declared = set()
for header in sorted((source / "include").glob("*.h")):
    text = re.sub(r"/\*.*?\*/|^#.*?$", "", header.read_text(), flags=re.S | re.M)
    declared |= set(re.findall(r"SOFTMAX_API\s[^;(]*?(\w+)\s*\(", text))

exported = {}
for line in subprocess.check_output(["nm", "-D", "--defined-only", library], text=True).splitlines():
    kind, name = line.split()[-2:]
    name, _, version = name.partition("@")
    if kind == "A" and not version or name == version.strip("@"):
        continue  # the version node itself
    exported[name] = version.strip("@")

for name in sorted(exported):
    if not name.startswith("softmax_"):
        failures.append(f"exported symbol {name} does not begin with softmax_")
    if not re.fullmatch(r"SOFTMAX_\d+\.\d+", exported[name]):
        failures.append(f"exported symbol {name} has the version '{exported[name]}', not SOFTMAX_x.y")
for name in sorted(declared - exported.keys()):
    failures.append(f"{name} is declared in a public header, but not exported")
for name in sorted(exported.keys() - declared):
    failures.append(f"{name} is exported, but no public header declares it")

dynamic = subprocess.check_output(["readelf", "-d", library], text=True)
soname = re.search(r"SONAME.*\[(.*)\]", dynamic)
if not soname or soname[1] != "libsoftmax.so.0":
    failures.append(f"the SONAME is {soname and soname[1]}, not libsoftmax.so.0")

for failure in failures:
    print("FAILED:", failure)
print(f"{len(exported)} exported symbols, {len(declared)} declared, {len(failures)} failures")
sys.exit(bool(failures) or not declared)
