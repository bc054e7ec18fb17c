"""Tests of the progress bar: shown on a terminal only."""

from __future__ import annotations

import pytest
from rich.progress import MofNCompleteColumn, TextColumn

from streammetrics.cli.output.progress import progress_bar


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error counts as a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")


def show_progress(*, wanted: bool = True) -> None:
    columns = (MofNCompleteColumn(), TextColumn("{task.fields[records]:,} records"))
    with progress_bar("count", *columns, total=10, wanted=wanted, records=0) as update:
        update(completed=7, records=7_000)


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_the_bar_shows_title_and_progress(capfd: pytest.CaptureFixture[str]) -> None:
    show_progress()
    out, err = capfd.readouterr()
    assert out == ""
    for word in ("count", "7/10", "7,000 records"):
        assert word in err


@pytest.mark.usefixtures("terminal")
def test_no_bar_is_shown_if_not_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    show_progress(wanted=False)
    assert capfd.readouterr() == ("", "")


def test_no_bar_is_shown_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    show_progress()
    assert capfd.readouterr() == ("", "")
