"""Several tasks in one report: shown only as far as all of them have come, and only what all of them still hold."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.events.model import Impression
from streammetrics.ledger import Ledger
from streammetrics.windows import WindowRules
from tests.machine import Machine, engine_of
from tests.oracle import Arrival, Settings

SETTINGS = Settings(inputs=("events",), gap_ms=1, lateness_ms=0, attribution_ms=1, pane_ms=1, windows_ms=(5,))
ENGINE = engine_of(SETTINGS, retention_ms=10)


def ledger_of() -> Ledger:
    return Ledger(ENGINE.layout, WindowRules(pane_ms=1, windows_ms=(5,), lateness_ms=0, attribution_ms=1), {}, ENGINE.signature)


def tell(ledger: Ledger, task: int, *times: int, anew: bool = False) -> None:
    """A task that has seen a list at each of these times, and a commit after each."""
    machine = Machine(ENGINE, SETTINGS)
    for ts in times:
        machine.take([Arrival("events", Impression(f"x{ts}", "u", ts, ("i",)))])
        machine.commit()
    machine.finish(flush=False)
    view = machine.store.view([0], {}, {})[0]
    ledger.update(task, replace(view, anew=anew))


def test_a_window_that_some_task_has_dropped_panes_of_is_withheld_and_counted_once() -> None:
    ledger = ledger_of()
    tell(ledger, 0, 1, 100)
    tell(ledger, 1, 1, 12)
    for _ in range(2):
        report = ledger.report(2)
        assert [window.complete for window in report.windows] == [False, False]
        assert report.withheld == 2


def test_nothing_stays_of_commits_that_a_store_has_lost() -> None:
    ledger = ledger_of()
    tell(ledger, 0, 1, 2, 9)
    assert ledger.board.starts() == [1, 2, 9]
    tell(ledger, 0, 3, anew=True)
    assert ledger.board.starts() == [3]


def test_all_lists_have_entered_as_far_as_in_the_task_that_is_furthest_behind() -> None:
    def entered_ms(*newest: int) -> int:
        ledger = ledger_of()
        for task, ts in enumerate(newest):
            tell(ledger, task, 1, ts)
        found = ledger.report(len(newest)).entered_ms
        assert found is not None
        return found

    assert entered_ms(100, 12) == entered_ms(12, 100) == entered_ms(12) < entered_ms(100)
