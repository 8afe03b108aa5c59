#!/bin/bash
# gpu_package.sh BUILD: the Python package for the python3 on the path, with the CUDA objects of BUILD, into BUILD/gpu/python: for check_gpu.sh and
# bench/gpu/run.py. Says why where that python3 cannot have it, and ends well.
set -u
build=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
why=$(python3 - <<'PYTHON' 2>&1
import os
import sys
import sysconfig

missing = []
for name in ("numpy", "pytest", "torch", "triton"):
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
if not missing and not sys.modules["torch"].cuda.is_available():
    missing.append("GPU that PyTorch sees")
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    missing.append("Python.h")
print("its python3 has no " + ", ".join(missing) if missing else "")
PYTHON
) || why="python3 is missing"
if [ -n "$why" ]; then
    echo "gpu: the Python package is not built here: $why"
    exit 0
fi
log=$build/gpu-python.log
if ! { cmake -S "$source" -B "$build" -DSOFTMAX_BUILD_PYTHON=ON -DPython_EXECUTABLE="$(python3 -c 'import sys; print(sys.executable)')" &&
    cmake --build "$build" -j "$(nproc)" --target softmax_python; } >"$log" 2>&1; then
    tail -5 "$log"
    echo "gpu: the Python package was not built; the whole log is $log"
    exit 1
fi
rm -rf "$build/gpu/python"
mkdir -p "$build/gpu/python"
cp -r "$source/python/libsoftmax" "$build/gpu/python/"
rm -f "$build"/gpu/python/libsoftmax/*.so
cp "$build"/python/_core*.so "$build/gpu/python/libsoftmax/"
mkdir -p "$build/gpu/python/libsoftmax/bin"
cp "$build/python/bin/softmax" "$build/gpu/python/libsoftmax/bin/"
# The next configuration is without it again, whatever becomes of that python3.
cmake -S "$source" -B "$build" -DSOFTMAX_BUILD_PYTHON=OFF >>"$log" 2>&1
