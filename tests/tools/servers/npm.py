"""Fetches packages with npm into the cache folder, once for each version."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.tools.servers.tools import CACHE_DIRECTORY, find_tool


def fetched(folder_name: str, *packages: str) -> Path:
    """Return the folder `node_modules` with these packages, such as `uplot@1.6.32`. It appears whole or not at all.

    Raises MissingToolError without npm, and RuntimeError if npm fails.
    """
    folder = CACHE_DIRECTORY / folder_name / "_".join(package.rpartition("@")[2] for package in packages)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as scratch:
            unpacked = Path(scratch) / "packages"
            command = [
                find_tool("npm"),
                "install",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--no-package-lock",
                "--prefix",
                unpacked,
            ]
            done = subprocess.run([*command, *packages], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"npm could not fetch {' and '.join(packages)}:\n{done.stderr[-3000:]}")
            try:
                unpacked.rename(folder)
            except OSError:
                if not folder.is_dir():  # a simultaneous process was faster
                    raise
    return folder / "node_modules"
