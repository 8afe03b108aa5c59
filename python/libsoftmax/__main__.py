"""python -m libsoftmax compare [options] FILE.npy [--plot OUT.svg]: the command's table with the Python ways as further rows.

run, info and --help are the command's own."""
import os
import sys

from libsoftmax import _command


def main(words):
    if words[:1] == ["compare"] and not {"-h", "--help"} & set(words):
        from libsoftmax import _compare

        return _compare.main(words[1:])
    if words[:1] == ["compare"]:
        print("python -m libsoftmax compare [options] FILE.npy [--plot OUT.svg]\n\n"
              "The table of `softmax compare`, and a row for every Python way that is installed: SciPy, PyTorch, JAX, the\n"
              "forms for study of libsoftmax.reference, Triton (without a GPU interpreted, small inputs), libsoftmax and libsoftmax.torch.\n"
              "  --plot OUT.svg        draws it: error against speed; and the probabilities, of two dimensions up to 512 x 512\n\n"
              "The options of softmax compare:\n", flush=True)
    command = _command.path()
    os.execv(command, [command, *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
