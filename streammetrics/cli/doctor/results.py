"""The check of `doctor` for the directory of result files: may this user write there, is there space, and is it this stream's?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.wiring.connections import result_directory

if TYPE_CHECKING:
    from streammetrics.config import Settings

FREE_BYTES_MIN: Final = 1 << 30
FREE_SHARE_MIN: Final = 0.05
"""Less free space than both is a warning."""


def result_file_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Check that the directory can be written, without writing. Raises ConfigError if it is another stream's or needs a package."""
    if settings.worker.role == "worker":
        yield DoctorFinding("ok", "skipped, because worker.role is worker: exporters write the files")
        return
    directory = result_directory(settings).path
    folders = [directory, *(directory / name for name in ("panes", "verdicts") if (directory / name).exists())]
    for folder in folders:
        yield from _writable(folder)
    existing = _nearest(directory)
    disk = shutil.disk_usage(existing)
    free = f"{disk.free / (1 << 30):.1f} GiB of {disk.total / (1 << 30):.1f} GiB are free"
    if disk.free < min(FREE_BYTES_MIN, FREE_SHARE_MIN * disk.total):
        yield DoctorFinding("warn", free, "free some space: files that cannot be written wait only as long as Redis keeps their panes")
    else:
        yield DoctorFinding("ok", free)


def _nearest(path: Path) -> Path:
    """Return the directory, or the nearest one above it that exists."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def _writable(folder: Path) -> Iterator[DoctorFinding]:
    existing = _nearest(folder)
    if not existing.is_dir():
        yield DoctorFinding("fail", f"{existing} is not a directory", "name a directory in results.directory")
    elif not os.access(existing, os.W_OK | os.X_OK):  # also false on a read-only file system
        fix = "let the user of this process write there, and mount the file system for writing"
        yield DoctorFinding("fail", f"{existing} cannot be written", fix)
    elif existing != folder.absolute():
        yield DoctorFinding("ok", f"{folder} does not exist yet, and can be made")
    else:
        yield DoctorFinding("ok", f"{folder} can be written")
