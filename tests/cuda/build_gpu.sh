#!/bin/bash
# build_gpu.sh WHO BUILD TARGET...: builds the targets for the GPU of this machine, and the Python package for the python3 on the path, in BUILD/on-gpu;
# for `make check-gpu` and `make bench-gpu` (WHO). Leaves the package in BUILD/on-gpu/gpu/python, or says why python3 cannot have it.
# Exits with 77 where there is no nvcc or no GPU. CMAKE_ARGS: words for cmake. CMAKE_PREFIX_PATH: where dlpack, MPFR and GMP lie, if not in the system.
set -u
who=$1
folder=$2
build=$folder/on-gpu
shift 2
source=$(cd "$(dirname "$0")/../.." && pwd)
log=$build/build.log

if ! command -v nvcc >/dev/null && [ ! -x "${CUDA_HOME:-${CUDA_PATH:-/usr/local/cuda}}/bin/nvcc" ]; then
    echo "$who: nvcc was not found here; nothing was run"
    exit 77
fi
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u | tr -d '. ' | paste -sd ';')
if ! [[ $capability =~ ^[0-9]+(;[0-9]+)*$ ]]; then
    echo "$who: nvidia-smi finds no GPU here; nothing was run"
    exit 77
fi

# What that python3 lacks for the package and its tests.
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
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")) and "Python_INCLUDE_DIR" not in os.environ.get("CMAKE_ARGS", ""):
    missing.append("Python.h")
print("its python3 has no " + ", ".join(missing) if missing else "")
PYTHON
) || why="python3 is missing"
python=(-DSOFTMAX_BUILD_PYTHON=OFF)
if [ -z "$why" ]; then
    python=(-DSOFTMAX_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$(python3 -c 'import sys; print(sys.executable)')")
    set -- "$@" softmax_python
else
    echo "$who: the Python package is not built here: $why"
fi

mkdir -p "$build"
configure()
{
    # shellcheck disable=SC2086 # a list of words
    cmake -S "$source" -B "$build" -DSOFTMAX_CUDA=ON "-DSOFTMAX_CUDA_ARCHITECTURES=$capability" "${python[@]}" ${CMAKE_ARGS:-} >"$log" 2>&1
}
failed()
{
    tail -20 "$log"
    echo "$who: $1; the whole log is $log"
    exit 1
}
# Debian's packages are asked for only where something is missing: the machine may have no way to get them.
if ! configure; then
    sh "$source/cmake/setup.sh" "$source/packages.apt" "$source/requirements-check.txt" "$folder/venv" || echo "$who: goes on with what is here"
    configure || failed "cmake failed"
fi
cmake --build "$build" -j "$(nproc)" --target "$@" >>"$log" 2>&1 || failed "the build failed"

rm -rf "$build/gpu/python"
[ -z "$why" ] || exit 0
mkdir -p "$build/gpu/python"
cp -r "$source/python/libsoftmax" "$build/gpu/python/"
rm -f "$build"/gpu/python/libsoftmax/*.so
cp "$build"/python/_core*.so "$build/gpu/python/libsoftmax/"
mkdir -p "$build/gpu/python/libsoftmax/bin"
cp "$build/python/bin/softmax" "$build/gpu/python/libsoftmax/bin/"
