"""What a report says of experiments, read back from its JSON: for the terminal and for a page. Pure; nothing is computed anew.

The JSON is that of `/api/report`, of `replay --report`, or of a live store; all are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from streammetrics.config.fields import MS_MAX
from streammetrics.errors import StreammetricsError
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.model import TS_MAX
from streammetrics.experiments import SINCE_START, THIS_DAY, ExperimentReport, PreferenceReport
from streammetrics.experiments.verdict import percent
from streammetrics.reports.history import History, HistorySnapshot, snapshot_of
from streammetrics.reports.text import fit

GIVE_A_REPORT: Final = "give what `replay --report` wrote or /api/report served"
SCOPE_WORDS: Final = {SINCE_START: "since it began", THIS_DAY: "on this UTC day"}
"""The scopes in the order and the words that people read."""
EARLIEST_MS: Final = -4 * MS_MAX - DAY_MS
"""How far behind an event at 0 everything may have entered: by disorder, lateness, attribution, patience, and a pane that has begun."""
LATEST_MS: Final = TS_MAX + DAY_MS
"""The longest pane may end so long after an event."""
CALENDAR_MS: Final = 146_097 * DAY_MS
"""After these 400 years the calendar comes again."""


@dataclass(frozen=True, slots=True)
class ReportReader:
    """All experiments of a report, by name and scope. `at_ms` is the event time up to which all is in them, None where unknown.

    `enabled` is False where experiments were switched off.
    """

    experiments: tuple[ExperimentReport, ...]
    history: History
    at_ms: int | None
    version: str
    enabled: bool = True

    def none_told(self) -> str:
        """Why there is no experiment to tell of."""
        if not self.enabled:
            return "Experiments are switched off: experiments.enabled is false"
        return f"No experiment has final lists yet, up to {moment(self.at_ms)}"

    def looks(self, experiment: ExperimentReport) -> list[tuple[int, HistorySnapshot]]:
        """The looks at an experiment in the order of time, that of the report itself the last."""
        looks = [*self.history.of(experiment.experiment, experiment.scope).snapshots.kept]
        if self.at_ms is not None:
            looks = [each for each in looks if each[0] < self.at_ms] + [(self.at_ms, snapshot_of(experiment))]
        return looks

    def message(self) -> list[ExperimentReport]:
        """The experiments without the days on which they began, of which nothing else could be told."""
        whole = {each.experiment: each.variants for each in self.experiments if each.scope != THIS_DAY}
        return [each for each in self.experiments if each.scope != THIS_DAY or whole.get(each.experiment) != each.variants]

    def only(self, names: Collection[str]) -> ReportReader:
        """Those of these names; all, when no name is given. Raises StreammetricsError for a name that is not there."""
        known = sorted({each.experiment for each in self.experiments})
        for name in names:
            if name not in known:
                there = ", ".join(map(fit, known)) or "none"
                raise StreammetricsError(f"there is no experiment {name!r} in the report; there are: {there}")
        return replace(self, experiments=tuple(each for each in self.experiments if not names or each.experiment in names))


def findings_of(plain: object, where: str) -> ReportReader:
    """The findings of a report given as plain JSON values. Raises StreammetricsError when `where` holds something else."""
    if not isinstance(plain, Mapping) or "experiments" not in plain:
        raise StreammetricsError(f"{where} is no report with experiments: {GIVE_A_REPORT}")
    try:
        experiments = msgspec.convert(plain["experiments"], tuple[ExperimentReport, ...])
        history = History.from_json(plain.get("history", []))
        at_ms = msgspec.convert(plain.get("experiments_entered_ms"), int | None)
    except msgspec.ValidationError as error:
        raise StreammetricsError(f"{where} is a report of another version, or a damaged one: {error}") from error
    at_ms = _newest_end(plain) if at_ms is None else at_ms
    times = [*([] if at_ms is None else [at_ms]), *(ms for trail in history.series for ms, _ in trail.snapshots.kept)]
    if odd := [ms for ms in times if not EARLIEST_MS <= ms <= LATEST_MS]:
        allowed = f"allowed are {EARLIEST_MS} to {LATEST_MS} ms from 1970 on"
        raise StreammetricsError(f"{where} is a damaged report: got the time {odd[0]}, {allowed}")
    order = list(SCOPE_WORDS)
    ordered = sorted(experiments, key=lambda each: (each.experiment, order.index(each.scope) if each.scope in order else len(order)))
    enabled = not _switched_off(plain.get("settings"))
    return ReportReader(tuple(ordered), history.matching(experiments), at_ms, str(plain.get("version", "")), enabled)


def _switched_off(settings: object) -> bool:
    experiments = settings.get("experiments") if isinstance(settings, Mapping) else None
    return isinstance(experiments, Mapping) and experiments.get("enabled") is False


def to_json(findings: ReportReader) -> dict[str, Any]:
    """The findings as plain JSON values, under the names of the report."""
    return {
        "version": findings.version,
        "experiments_entered_ms": findings.at_ms,
        "experiments": [each.to_json() for each in findings.experiments],
        "history": [
            trail for trail in findings.history.to_json() if any(trail["experiment"] == each.experiment for each in findings.experiments)
        ],
    }


def moment(at_ms: int | None) -> str:
    """A time for people.

    >>> moment(1_732_183_200_000), moment(None)
    ('2024-11-21 10:00 UTC', 'an unknown time')
    """
    if at_ms is None:
        return "an unknown time"
    beyond = at_ms > TS_MAX  # where datetime ends
    at = datetime.fromtimestamp((at_ms - CALENDAR_MS * beyond) / 1_000, UTC)
    return f"{at.year + 400 * beyond}-{at:%m-%d %H:%M} UTC"


def lift_text(lift: float | None) -> str:
    """A relative difference for people; a dash where there is none.

    >>> lift_text(-0.1463), lift_text(0.02), lift_text(None)
    ('-14.6 %', '+2.0 %', '-')
    """
    return "-" if lift is None else f"{100 * lift:+.1f} %"


def interval_text(lower: float | None, upper: float | None) -> str:
    """The interval of a lift for people; an end that the data do not bound is open.

    >>> interval_text(-0.17, -0.12), interval_text(None, 0.5), interval_text(None, None)
    ('-17.0 % to -12.0 %', 'below +50.0 %', '-')
    """
    if lower is None or upper is None:
        return "-" if lower is upper else f"below {lift_text(upper)}" if lower is None else f"above {lift_text(lower)}"
    return f"{lift_text(lower)} to {lift_text(upper)}"


def share_text(share: float) -> str:
    """A share for people.

    >>> share_text(0.314159)
    '31.4 %'
    """
    return f"{100 * share:.1f} %"


def credit_text(preference: PreferenceReport) -> str:
    """The interval of a mean credit for people; a dash before there are users enough."""
    if preference.credit_lower is None or preference.credit_upper is None:
        return "-"
    return f"{preference.credit_lower:+.4f} to {preference.credit_upper:+.4f}"


def health_lines(experiment: ExperimentReport) -> list[str]:
    """The checks of an experiment in words, one each."""
    health = experiment.health
    split = "not as it should be" if any("split" in trouble for trouble in health.troubles) else "as it should be"
    lines = [
        f"split of users: {split} (p = {health.sample_ratio_p:.2g})",
        f"users in several variants: {experiment.multi_exposed_users:,} ({percent(health.multi_exposed_share)}), excluded",
    ]
    if health.unmatched_share is not None:
        lines.append(f"feedback that counts for no list: {percent(health.unmatched_share)}")
    return lines


def honesty(experiment: ExperimentReport) -> str:
    """What may be expected of the intervals."""
    return (
        f"Intervals hold at every look: one of a measure is ever wrong in at most {100 * experiment.alpha:g} % of experiments. "
        f"A drop of up to {100 * experiment.margin:g} % is tolerated."
    )


def _newest_end(plain: Mapping[str, Any]) -> int | None:
    """The end of the newest window: of an input that has ended, all before it is in the experiments."""
    windows = plain.get("windows", [])
    ends = [window.get("end_ms") for window in windows if isinstance(window, Mapping)] if isinstance(windows, list) else []
    return max((end for end in ends if isinstance(end, int)), default=None)
