"""Creates the golden environment: a separate interpreter with the libraries that the presets are compared with.

Nothing of it is ever imported by the tests' own interpreter: the libraries' bounds on numpy, pandas and Python would bind the
project. `python -m tests.metrics.golden.environment` makes it under .cache, once for each set of pins.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

from tests.metrics.golden import cases

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[2]
CACHE: Final = ROOT / ".cache" / "golden"
REQUIREMENTS: Final = HERE / "requirements.txt"

UNCALLED: Final = (
    "libcublas.so.13",
    "libcublasLt.so.13",
    "libcudnn.so.9",
    "libcufft.so.12",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libnccl.so.2",
    "libnvrtc.so.13",
)
"""CUDA libraries that torch's wheel for Linux names and that nothing on a processor calls: 1.7 GB to fetch, for no number of ours."""


class EnvironmentMissing(Exception):
    """The environment is not there; the message says how to make it."""


def home() -> Path:
    """Where the environment of these pins and this interpreter belongs."""
    made_of = REQUIREMENTS.read_bytes() + f"{UNCALLED} {sys.version} {sys.platform} {platform.machine()}".encode()
    return CACHE / f"{sys.implementation.cache_tag}-{hashlib.sha256(made_of).hexdigest()[:16]}"


def interpreter() -> Path:
    """The interpreter that has the libraries. Raises EnvironmentMissing if it has not been made."""
    found = home()
    if not (found / "complete").exists():
        raise EnvironmentMissing(f"{found} is missing or half made; run: make golden")
    return found / "bin" / "python"


def make() -> None:
    """Make the environment if it is missing. It counts only when it is complete; older ones of this Python are deleted then."""
    target = home()
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            _make(target)
        for other in CACHE.glob(f"{sys.implementation.cache_tag}-*"):
            if other != target:
                shutil.rmtree(other)


def _make(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    venv.create(target, with_pip=True)
    # Every pin is here, so that nothing is resolved; RecTools asks for Python < 3.14 and runs on it.
    command = [target / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--only-binary", ":all:", "--ignore-requires-python", "--requirement", REQUIREMENTS], check=True)
    if sys.platform == "linux":
        _satisfy_loader(target)
    _warm(target)
    (target / "complete").touch()


def _satisfy_loader(target: Path) -> None:
    """Give the loader a file for each library that torch names and never calls: a link to one of torch's own, without symbols.

    The worker loads torch lazily (RTLD_LAZY), so a call into one of them would end the process instead of giving a number.
    """
    for folder in target.glob("lib/python*/site-packages/torch/lib"):
        for name in UNCALLED:
            (folder / name).symlink_to("libtorch_global_deps.so")


def _warm(target: Path) -> None:
    """Compile what ranx compiles at its first questions, which takes much longer than all measuring; numba keeps it beside the code."""
    lists = [[case.items, case.grades, case.scores] for case in cases.edges()]
    question = json.dumps({"lists": lists, "cutoffs": cases.CUTOFFS})
    command = [target / "bin" / "python", "-m", "tests.metrics.golden.worker", "ranx"]
    subprocess.run(command, input=question + "\n", check=True, text=True, stdout=subprocess.DEVNULL, cwd=ROOT)


if __name__ == "__main__":
    print(f"golden: {home()}")
    make()
