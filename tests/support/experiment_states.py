"""Experiments in each situation of the table in gate.md: with lists, without, stopped, ended, in a step, unsound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from streammetrics.experiments import ExperimentReport, FeedbackCounts, Policy, StoredSums, build_report, choose_scales
from streammetrics.experiments.hours import Hours
from tests.support.columns import MEASURES
from tests.support.experiment_samples import arm, in_one_hour
from tests.support.paths import ROOT

GATE_PAGE: Final = ROOT / "streammetrics" / "experiments" / "gate.md"
HOUR_MS: Final = 3_600_000
BEGIN_MS: Final = 480_000 * HOUR_MS
"""The lists of samples.in_one_hour are in the hour after it."""
STOP_MS: Final = BEGIN_MS + 50 * 60_000
USERS: Final = 6_000


class SituationRow(NamedTuple):
    """A row of the table: what is shown of a situation. Words as in reports; empty for none."""

    state: str
    verdict: str
    decided: str
    gate: str
    alert: str


def table() -> dict[str, SituationRow]:
    """Return the table of the page by situation."""
    text = GATE_PAGE.read_text(encoding="utf-8").partition("## What each situation shows")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {row[0]: SituationRow(*("" if cell == "\N{EN DASH}" else cell for cell in row[1:])) for row in rows[2:]}


def stored_arms(chances: Mapping[str, float], stopped: tuple[str, ...] = (), hours: float = 0.2, **others: Any) -> StoredSums:
    """Arms with hits, in one hour. Those in `stopped` have the last list before the end of the hour. The newest event is `hours` later."""
    moments = {name: arm(USERS, chance, seed) for seed, (name, chance) in enumerate(chances.items(), 1)}
    newest_ms = BEGIN_MS + HOUR_MS + round(hours * HOUR_MS)
    last_ms = {name: STOP_MS if name in stopped else BEGIN_MS + HOUR_MS for name in chances}
    given: dict[str, Any] = {
        "experiment": "ranker",
        "scope": "start",
        "first_list_users": dict.fromkeys(chances, USERS),
        "joined": FeedbackCounts(900, 100),
        "from_ms": BEGIN_MS,
        "to_ms": newest_ms,
        "newest_ms": newest_ms,
        "last_ms": last_ms,
        "lists_since": {name: 900 if name in stopped else 0 for name in chances},
    }
    return StoredSums(**{**in_one_hour(MEASURES, moments), **given, **others})


def report_of(stored: StoredSums, since_ms: int | None = None, *, fixed: bool = True) -> ExperimentReport:
    policy = Policy(paging=("ndcg@10",), shares=dict.fromkeys(stored.moments, 1.0) if fixed else None)
    return build_report(MEASURES, policy, stored, choose_scales(MEASURES, policy, stored, {}), since_ms=since_ms)


WORSE: Final = {"control": 0.5, "treatment": 0.4}
BETTER: Final = {"control": 0.4, "treatment": 0.5}
ALIKE: Final = {"control": 0.5, "treatment": 0.497}
DAY = 24.5


def _unsound(hours: float) -> ExperimentReport:
    return report_of(replace(stored_arms(WORSE, hours=hours), joined=FeedbackCounts(100, 900)))


def _with_moves() -> ExperimentReport:
    hours = Hours()
    hours.row(BEGIN_MS // HOUR_MS).moves["treatment", "control"] = USERS // 10
    return report_of(stored_arms(WORSE, run_hours=hours), fixed=False)


def _ended(chances: Mapping[str, float], hours: float) -> ExperimentReport:
    return report_of(stored_arms(chances, hours=hours, end_ms=BEGIN_MS + HOUR_MS + 1))


SITUATIONS: Final[Mapping[str, Callable[[], ExperimentReport]]] = {
    "worse, all arms get lists": lambda: report_of(stored_arms(WORSE)),
    "better, with fixed `shares`": lambda: report_of(stored_arms(BETTER)),
    "better, and no step is named": lambda: report_of(stored_arms(BETTER), fixed=False),
    "better, since the step that is named": lambda: report_of(stored_arms(BETTER), BEGIN_MS, fixed=False),
    "better, before lists of the step count": lambda: report_of(stored_arms(BETTER), BEGIN_MS + HOUR_MS, fixed=False),
    "worse, no list for an hour": lambda: report_of(stored_arms(WORSE, hours=1)),
    "worse, the treatment has stopped": lambda: report_of(stored_arms(WORSE, ("treatment",))),
    "better, the treatment has stopped": lambda: report_of(stored_arms(BETTER, ("treatment",))),
    "undecided, the treatment has stopped": lambda: report_of(stored_arms(ALIKE, ("treatment",))),
    "better, the control has stopped": lambda: report_of(stored_arms(BETTER, ("control",))),
    "one treatment is worse and has stopped, another is better": lambda: report_of(
        stored_arms({"control": 0.5, "a": 0.4, "b": 0.6}, ("a",)), BEGIN_MS, fixed=False
    ),
    "worse, no list for a day": lambda: report_of(stored_arms(WORSE, hours=DAY)),
    "better, no list for a day": lambda: report_of(stored_arms(BETTER, hours=DAY)),
    "worse, its `end` has passed": lambda: _ended(WORSE, 0.2),
    "better, its `end` has passed": lambda: _ended(BETTER, 0.2),
    "better, its `end` has passed a day ago": lambda: _ended(BETTER, DAY),
    "worse, and users of the treatment get the control's lists": _with_moves,
    "unsound": lambda: _unsound(0.2),
    "unsound, no list for a day": lambda: _unsound(DAY),
}
