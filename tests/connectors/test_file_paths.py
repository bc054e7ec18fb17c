"""Folders and patterns name files."""

from __future__ import annotations

from pathlib import Path

from streammetrics.connectors.files import expanded_paths


def made(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_a_folder_names_the_files_in_and_below_it(tmp_path: Path) -> None:
    made(tmp_path, "b", "a", "sub/c", ".hidden", "_SUCCESS", "_temporary/d", "sub/.crc")
    assert expanded_paths([str(tmp_path)]) == [str(tmp_path / name) for name in ("a", "b", "sub/c")]


def test_a_pattern_names_the_files_that_match(tmp_path: Path) -> None:
    made(tmp_path, "2026-01.csv", "2026-02.csv", "2025-12.csv", "x/2026-03.csv")
    assert expanded_paths([str(tmp_path / "2026-*")]) == [str(tmp_path / f"2026-0{month}.csv") for month in (1, 2)]
    assert len(expanded_paths([str(tmp_path / "**" / "*.csv")])) == 4


def test_other_paths_stay_as_given(tmp_path: Path) -> None:
    made(tmp_path, "a[1]")
    named = ["-", str(tmp_path / "none"), str(tmp_path / "*.none"), str(tmp_path / "a[1]")]
    assert expanded_paths(named) == named


def test_the_order_of_the_arguments_is_kept(tmp_path: Path) -> None:
    made(tmp_path, "one/a", "two/b")
    assert expanded_paths([str(tmp_path / "two"), str(tmp_path / "one")]) == [str(tmp_path / "two/b"), str(tmp_path / "one/a")]
