# python.sh SCRIPT: runs it with the Python that `make setup` made, or another that has NumPy; skipped where there is none.
for python in "$SOFTMAX_BUILD/venv/bin/python" python3; do
    if "$python" -c 'import numpy' 2>/dev/null; then
        SOFTMAX_PYTHON=$python
        export SOFTMAX_PYTHON
        exec "$python" -B "$@"
    fi
done
echo "no Python with NumPy: 'make setup' installs one"
exit 77
