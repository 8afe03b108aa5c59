"""Where the command `softmax` is."""
import os
import pathlib
import shutil
import sys


def path():
    """$SOFTMAX_COMMAND, else the wheel's, else the one on the path."""
    inside = pathlib.Path(__file__).parent / "bin" / "softmax"
    found = os.environ.get("SOFTMAX_COMMAND") or (str(inside) if inside.exists() else shutil.which("softmax"))
    if not found:
        sys.exit("libsoftmax: the command softmax is missing: neither $SOFTMAX_COMMAND nor the package nor $PATH has it")
    return found
