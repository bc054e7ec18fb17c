"""What `doctor` says about the directory of result files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streammetrics.cli.doctor import results
from streammetrics.cli.doctor.results import result_file_findings
from streammetrics.errors import ConfigError
from streammetrics.wiring.connections import result_directory
from tests.support.settings import by_flags


def findings(directory: Path, **given: object) -> list[tuple[str, str]]:
    flags = {"results.directory": str(directory), **{key.replace("__", "."): value for key, value in given.items()}}
    return [(each.level, each.text) for each in result_file_findings(by_flags(flags).settings)]


def test_a_directory_that_can_be_made_is_fine_and_is_not_made(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    (level, text), (space, free) = findings(place)
    assert (level, text, space) == ("ok", f"{place} does not exist yet, and can be made", "ok")
    assert "GiB are free" in free
    assert not list(tmp_path.iterdir())


def test_a_file_in_its_place_is_a_failure(tmp_path: Path) -> None:
    place = tmp_path / "results"
    place.write_text("")
    assert findings(place)[0] == ("fail", f"{place} is not a directory")


def test_a_folder_without_the_right_to_write_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results.os, "access", lambda path, mode: path != tmp_path)  # root may write everywhere
    (tmp_path / "panes").mkdir()
    assert findings(tmp_path)[:2] == [("fail", f"{tmp_path} cannot be written"), ("ok", f"{tmp_path / 'panes'} can be written")]


def test_little_space_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk: Any = SimpleNamespace(free=1 << 29, total=100 << 30)
    monkeypatch.setattr(results.shutil, "disk_usage", lambda path: disk)
    assert findings(tmp_path)[-1] == ("warn", "0.5 GiB of 100.0 GiB are free")


def test_files_of_other_spans_are_a_failure(tmp_path: Path) -> None:
    result_directory(by_flags({"results.directory": str(tmp_path)}).settings).prepare()
    assert findings(tmp_path)[0][0] == "ok"
    with pytest.raises(ConfigError, match="has files of another stream or span"):
        findings(tmp_path, results__file_ms=600_000)


def test_a_worker_writes_none(tmp_path: Path) -> None:
    ((level, text),) = findings(tmp_path, worker__role="worker")
    assert (level, text) == ("ok", "skipped, because worker.role is worker: exporters write the files")
