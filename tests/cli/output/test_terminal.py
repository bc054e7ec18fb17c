"""Tables on terminals of any width."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn
from rich.text import Text

from streammetrics.cli.output.terminal import FittingTable, progress_bar
from tests.support.tables import for_each


def printed(table: FittingTable, width: int) -> list[str]:
    output = StringIO()
    Console(file=output, width=width).print(table)
    return [line.rstrip() for line in output.getvalue().splitlines() if line.strip()]


def means() -> FittingTable:
    table = FittingTable(("span", "variant"), ("lists", "live\nmean"), ("verdict",), grouped=True)
    table.add_row("last hour", "control", "1,234", "0.5000", "")
    table.add_row("last hour", "treatment of the week", "1,301", "0.2500", Text("regressed"))
    return table


def test_a_table_that_fits_shows_a_group_name_once() -> None:
    assert printed(means(), 70) == [
        "                                               live",
        " span        variant                 lists     mean   verdict",
        " ──────────────────────────────────────────────────────────────",
        " last hour   control                 1,234   0.5000",
        "             treatment of the week   1,301   0.2500   regressed",
    ]


def test_a_table_that_does_not_fit_becomes_rows() -> None:
    assert printed(means(), 50) == [
        "last hour · control",
        "  lists 1,234 · live mean 0.5000",
        "last hour · treatment of the week",
        "  lists 1,301 · live mean 0.2500 · verdict",
        "  regressed",
    ]


@for_each(range(14, 90))
def test_no_word_or_number_is_cut_on_a_narrow_terminal(width: int) -> None:
    text = " ".join(" ".join(printed(means(), width)).split())
    for whole in ("last hour", "control", "treatment of the week", "1,234", "1,301", "0.5000", "0.2500", "regressed"):
        assert whole in text


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
