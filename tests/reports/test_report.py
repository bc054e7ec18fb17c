"""The JSON of a report."""

from __future__ import annotations

from typing import Any

from streammetrics import __version__
from streammetrics.events.model import Feedback, Impression
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.reports.data_warnings import UnknownName
from streammetrics.reports.history import History
from streammetrics.reports.input_warnings import FIX, UserPartitions
from streammetrics.reports.published import plain, published
from streammetrics.reports.report import InputPosition, Report
from streammetrics.windows.panes import Window
from streammetrics.windows.unique_users import UniqueUserWindow, UserCounts
from tests.oracle import Arrival, Settings
from tests.support.machine import Machine, engine_of

SETTINGS = Settings(inputs=("events",), pane_ms=10, windows_ms=(10,))


def report_json(*events: Impression | Feedback) -> dict[str, Any]:
    machine = Machine(engine_of(SETTINGS), SETTINGS)
    machine.feed([Arrival("events", event) for event in events])
    machine.finish(flush=True)
    document: dict[str, Any] = plain(published(machine.report(), machine.engine.layout, History()))
    return document


def test_each_view_of_totals_and_windows_has_its_own_values() -> None:
    report = report_json(Impression("x", "u", 1, ("i",)), Impression("y", "v", 1, ("i",)), Feedback("u", 2, "i", "click"))
    final = next(window for window in report["windows"] if window["view"] == "final")
    for group in (report["totals"][0], final["groups"][0]):
        assert (group["lists"], group["lists_with_feedback"]) == (2, 1)
        assert (group["values"]["ndcg@3"], group["values_with_feedback"]["ndcg@3"]) == (0.5, 1.0)


def test_each_value_of_a_report_has_its_own_name() -> None:
    report = Report(
        rules="by rule",
        settings={"gap_ms": 1},
        tasks=2,
        tasks_committed=3,
        watermark_ms=4,
        final_ms=5,
        ended=True,
        inputs=(InputPosition("feedback", 6, 7, 8),),
        windows=(Window(9, "live", 10, False, ()),),
        totals=(),
        counts={("late", "feedback"): 11, ("events", "feedback"): 12, ("events", "impressions"): 13},
        users_open=14,
        sessions_open=15,
        withheld=16,
        entered_ms=17,
        user_partitions=UserPartitions(22, 11),
        unknown_names=(UnknownName("action", "tap", 23, "click"),),
        user_windows=(UniqueUserWindow(18, 19, True, (UserCounts(("ranker", "new"), 20, {5: 10}),)),),
    )
    of_users = {"experiment": "ranker", "variant": "new", "users": 20, "users_with_hit": {"user_hit_rate@5": 10}}
    assert plain(published(report, TallyLayout(Scorer(["mrr@5"])), History())) == {
        "warnings": [
            f"50 % of users have events on several partitions (11 of 22 sampled users), so their feedback may miss its list. S{FIX[1:]}.",
            "None of 14 events is a list. Let the inputs hold the lists that users saw, too.",
        ],
        "awaited": [],
        "first_numbers": [],
        "late_inputs": [],
        "sorted_inputs": [],
        "version": __version__,
        "settings": {"gap_ms": 1},
        "metrics": {"mrr": {"label": "MRR", "ceiling": 1}},
        "unknown_names": [{"kind": "action", "name": "tap", "events": 23, "meant": "click"}],
        "ignored": [],
        "rules": "by rule",
        "tasks": 2,
        "tasks_committed": 3,
        "watermark_ms": 4,
        "final_ms": 5,
        "ended": True,
        "inputs": [{"topic": "feedback", "partition": 6, "offset": 7, "watermark_ms": 8, "known_ms": None, "record_ms": None}],
        "windows": [{"window_ms": 9, "view": "live", "end_ms": 10, "complete": False, "groups": []}],
        "totals": [],
        "counters": {"events": 25, "late": 11},
        "refused": {"late": 11},
        "counters_by_topic": [
            {"reason": "events", "topic": "feedback", "count": 12},
            {"reason": "events", "topic": "impressions", "count": 13},
            {"reason": "late", "topic": "feedback", "count": 11},
        ],
        "users_open": 14,
        "sessions_open": 15,
        "windows_withheld": 16,
        "user_partitions": {"users_sampled": 22, "on_several": 11},
        "experiments": [],
        "verdicts": [],
        "explanations": [],
        "history": [],
        "experiments_entered_ms": 17,
        "user_windows": [{"window_ms": 18, "end_ms": 19, "complete": True, "groups": [{**of_users, "values": {"user_hit_rate@5": 0.5}}]}],
    }
