"""Tests of atomic files: complete or absent, with ordinary permissions, and errors with their option."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.errors import StreammetricsError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_incomplete_file_has_a_unique_name_in_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"former")
    with AtomicFile("--out", path) as one, AtomicFile("--out", path) as other:
        one.write(b"one")
        other.write(b"other")
        assert path.read_bytes() == b"former"
        partial = [name for name in names(tmp_path) if name != "out"]
        assert len(partial) == 2
        assert all(name.startswith("out.") and name.endswith(".part") for name in partial)
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_file_has_the_permissions_of_the_umask(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        with AtomicFile("--out", tmp_path / "out") as file:
            file.write(b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_interrupted_write_keeps_the_old_file(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"former")

    def break_off() -> None:
        with AtomicFile("--out", path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        break_off()
    assert (path.read_bytes(), names(tmp_path)) == (b"former", ["out"])


def test_a_failed_rename_leaves_no_partial_file(tmp_path: Path) -> None:
    path = tmp_path / "out"

    def write_while_a_folder_takes_the_name() -> None:
        with AtomicFile("--out", path) as file:
            file.write(b"new")
            (path / "in the way").mkdir(parents=True)

    with pytest.raises(StreammetricsError, match=r"--out = .*out: cannot be written: "):
        write_while_a_folder_takes_the_name()
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("size", [1, 1 << 20], ids=["at the end", "while it is written"])
def test_a_full_device_is_reported_with_its_option(size: int) -> None:
    message = r"^--out = /dev/full: cannot be written: No space left on device$"
    with pytest.raises(StreammetricsError, match=message), AtomicFile("--out", Path("/dev/full")) as file:
        file.write(b"1" * size)


def test_a_closed_pipe_raises_broken_pipe_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        with pytest.raises(BrokenPipeError), AtomicFile("--out", Path(f"/dev/fd/{theirs}")) as file:
            file.write(b"1")
    finally:
        os.close(theirs)


def test_a_pipe_can_be_written() -> None:
    ours, theirs = os.pipe()
    try:
        with AtomicFile("--out", Path(f"/dev/fd/{theirs}")) as file:
            file.write(b"1 2 3")
        assert os.read(ours, 10) == b"1 2 3"
    finally:
        os.close(ours)
        os.close(theirs)
