"""Creates the golden environment: a separate interpreter with the libraries that the presets are compared with.

The tests' own interpreter imports none of these libraries, because their limits on numpy, pandas and Python would restrict the
project. `python -m tests.metrics.golden.environment` creates it under .cache, once per set of pinned versions.
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
"""CUDA libraries that the Linux wheel of torch links. They are 1.7 GB and are not called on a CPU, so they are not installed."""


class EnvironmentMissing(Exception):
    """The environment does not exist. The message names the command that creates it."""


def home() -> Path:
    """The folder of the environment for these pinned versions and this interpreter."""
    made_of = REQUIREMENTS.read_bytes() + f"{UNCALLED} {sys.version} {sys.platform} {platform.machine()}".encode()
    return CACHE / f"{sys.implementation.cache_tag}-{hashlib.sha256(made_of).hexdigest()[:16]}"


def interpreter() -> Path:
    """The interpreter with the libraries. Raises EnvironmentMissing if the environment is missing or incomplete."""
    folder = home()
    if not (folder / "complete").exists():
        raise EnvironmentMissing(f"{folder} is missing or incomplete; run: make golden")
    return folder / "bin" / "python"


def make() -> None:
    """Create the environment if it is missing or incomplete. Then delete older ones of this Python version."""
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
    # All versions are pinned, so nothing is resolved. RecTools declares Python < 3.14 but works with it.
    command = [target / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--only-binary", ":all:", "--ignore-requires-python", "--requirement", REQUIREMENTS], check=True)
    if sys.platform == "linux":
        _satisfy_loader(target)
    _warm(target)
    (target / "complete").touch()


def _satisfy_loader(target: Path) -> None:
    """Create a link for each CUDA library that torch links but never calls on a CPU, so that the loader finds a file.

    The worker loads torch lazily (RTLD_LAZY). A call into one of these libraries would end the process, not give a wrong number.
    """
    for folder in target.glob("lib/python*/site-packages/torch/lib"):
        for name in UNCALLED:
            (folder / name).symlink_to("libtorch_global_deps.so")


def _warm(target: Path) -> None:
    """Run ranx once. Its first run compiles for much longer than all measurements take; numba caches the result."""
    lists = [[case.items, case.grades, case.scores] for case in cases.edges()]
    question = json.dumps({"lists": lists, "cutoffs": cases.CUTOFFS})
    command = [target / "bin" / "python", "-m", "tests.metrics.golden.worker", "ranx"]
    subprocess.run(command, input=question + "\n", check=True, text=True, stdout=subprocess.DEVNULL, cwd=ROOT)


if __name__ == "__main__":
    print(f"golden: {home()}")
    make()
