"""Reads the experiments of a report from its JSON, for the terminal and for the HTML page. Pure; recomputes nothing.

`/api/report`, `replay --report` and the state in Redis give the same JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from streammetrics.errors import StreammetricsError
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.model import TS_MAX
from streammetrics.experiments import ExperimentReport, PreferenceReport
from streammetrics.experiments.experiment_report import SINCE_START, THIS_DAY, worst_first
from streammetrics.reports.explanation_values import Explanation
from streammetrics.reports.first_numbers import AwaitedExperiment
from streammetrics.reports.history import History, HistorySeries
from streammetrics.reports.verdict_lines import VerdictLine, verdict_lines
from streammetrics.words.names import fit, in_order
from streammetrics.words.numbers import percent
from streammetrics.words.times import SPAN_MS_MAX, minute_text

REPORT_ADVICE: Final = "give a file from `replay --report` or from /api/report"
SCOPE_WORDS: Final = {SINCE_START: "since it began", THIS_DAY: "since midnight UTC"}
"""The scopes, with their text."""
EARLIEST_MS: Final = -4 * SPAN_MS_MAX - DAY_MS
"""Earliest possible time in a report: an event at 0 less out-of-orderness, lateness, attribution, patience and one pane."""
LATEST_MS: Final = TS_MAX + DAY_MS
"""Latest possible time in a report: the end of the longest pane after the last event time."""


class SavedReport(msgspec.Struct, frozen=True):
    """The part of a report that is about experiments. Its fields are those of `PublishedReport`; all but `experiments` may be missing."""

    experiments: tuple[ExperimentReport, ...]
    version: str = ""
    experiments_entered_ms: int | None = None
    warnings: tuple[str, ...] = ()
    verdicts: tuple[VerdictLine, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    awaited: tuple[AwaitedExperiment, ...] = ()
    history: tuple[HistorySeries, ...] = ()


class _Window(msgspec.Struct, frozen=True):
    """The end of a window."""

    end_ms: int | None = None


class _Experiments(msgspec.Struct, frozen=True):
    """The settings of experiments."""

    enabled: bool = True


class _Settings(msgspec.Struct, frozen=True):
    """The settings of a report."""

    experiments: _Experiments = _Experiments()


class _WholeReport(SavedReport, frozen=True):
    """What is read of a report beside its experiments."""

    windows: tuple[_Window, ...] = ()
    settings: _Settings = _Settings()


@dataclass(frozen=True, slots=True)
class ExperimentResults:
    """All experiments of a report, the worst first, each with its day after its whole time, and with their history.

    `at_ms` is the event time up to which they are complete; None: unknown. `enabled` is False if experiments are switched off.
    `warnings` are sentences about the whole report, to be shown first. `explanations` say why variants differ.
    """

    experiments: tuple[ExperimentReport, ...]
    history: History
    at_ms: int | None
    version: str
    enabled: bool = True
    warnings: tuple[str, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    awaited: tuple[AwaitedExperiment, ...] = ()

    def empty_text(self) -> str:
        """Say why there is no experiment to show."""
        if not self.enabled:
            return "Experiments are switched off: experiments.enabled is false"
        return f"No experiment has final lists yet, up to {minute_text(self.at_ms)}"

    def scopes_by_experiment(self) -> list[list[ExperimentReport]]:
        """Return the scopes of each experiment. On its first day, an experiment's day equals its whole run and is left out."""
        by_name: dict[str, list[ExperimentReport]] = {}
        for experiment in self.experiments:
            scopes = by_name.setdefault(experiment.experiment, [])
            if not scopes or scopes[0].variants != experiment.variants:
                scopes.append(experiment)
        return list(by_name.values())

    def only(self, names: Collection[str]) -> ExperimentResults:
        """Keep the experiments with these names; without names, all. Raises StreammetricsError for an unknown name."""
        all_names = in_order(
            [experiment.experiment for experiment in self.experiments] + [experiment.experiment for experiment in self.awaited]
        )
        for name in names:
            if name not in all_names:
                existing = ", ".join(map(fit, all_names)) or "none"
                raise StreammetricsError(f"the report has no experiment {name!r}; it has: {existing}")
        if not names:
            return self
        explained = tuple(explanation for explanation in self.explanations if explanation.experiment in names)
        awaited = tuple(verdict for verdict in self.awaited if verdict.experiment in names)
        experiments = tuple(experiment for experiment in self.experiments if experiment.experiment in names)
        return replace(self, experiments=experiments, explanations=explained, awaited=awaited)


def read_report(plain: object, where: str) -> ExperimentResults:
    """Read the experiments of a report from plain JSON values. Raises StreammetricsError if they are not a report."""
    if not isinstance(plain, Mapping) or "experiments" not in plain:
        raise StreammetricsError(f"{where} is not a report with experiments; {REPORT_ADVICE}")
    try:
        report = msgspec.convert(plain, _WholeReport)
    except msgspec.ValidationError as error:
        raise StreammetricsError(f"{where} is a damaged report, or of another version: {error}") from error
    history, ends = History.of_series(report.history), (window.end_ms for window in report.windows if window.end_ms is not None)
    at_ms = max(ends, default=None) if report.experiments_entered_ms is None else report.experiments_entered_ms
    times = [*([] if at_ms is None else [at_ms]), *(ms for series in history.series for ms, _ in series.snapshots.kept)]
    if invalid := [ms for ms in times if not EARLIEST_MS <= ms <= LATEST_MS]:
        raise StreammetricsError(f"{where} is a damaged report: the time {invalid[0]} is not from {EARLIEST_MS} to {LATEST_MS} epoch ms")
    return ExperimentResults(
        tuple(worst_first(report.experiments)),
        history.matching(report.experiments),
        at_ms,
        report.version,
        report.settings.experiments.enabled,
        report.warnings,
        report.explanations,
        report.awaited,
    )


def saved_report(results: ExperimentResults) -> SavedReport:
    """Return the results as a report that can be read again."""
    names = {experiment.experiment for experiment in results.experiments}
    return SavedReport(
        results.experiments,
        results.version,
        results.at_ms,
        results.warnings,
        verdict_lines(results.experiments, results.at_ms),
        results.explanations,
        results.awaited,
        tuple(series for series in results.history.series if series.experiment in names),
    )


def lift_text(lift: float | None) -> str:
    """Format a relative difference; a dash if there is none.

    >>> lift_text(-0.1463), lift_text(0.02), lift_text(None)
    ('-14.6 %', '+2.0 %', '-')
    """
    return "-" if lift is None else f"{100 * lift:+.1f} %"


def interval_text(lower: float | None, upper: float | None) -> str:
    """Format the interval of a lift; an end without a bound is open.

    >>> interval_text(-0.17, -0.12), interval_text(None, 0.5), interval_text(None, None)
    ('-17.0 % to -12.0 %', 'below +50.0 %', '-')
    """
    if lower is None or upper is None:
        return "-" if lower is upper else f"below {lift_text(upper)}" if lower is None else f"above {lift_text(lower)}"
    return f"{lift_text(lower)} to {lift_text(upper)}"


def credit_text(preference: PreferenceReport) -> str:
    """Format the interval of a mean credit; a dash if there are too few users."""
    if preference.credit_lower is None or preference.credit_upper is None:
        return "-"
    return f"{preference.credit_lower:+.4f} to {preference.credit_upper:+.4f}"


def health_lines(experiment: ExperimentReport) -> list[str]:
    """Return the checks of an experiment in words, one each."""
    health, of_split = experiment.health, f"split of {experiment.unit}s"
    if health.sample_ratio_p is None:
        lines = list(health.notes) or [f"{of_split}: not checked, no shares configured"]
    else:
        split = "as configured" if health.split_holds else "not as configured"
        lines = [f"{of_split}: {split} (p = {health.sample_ratio_p:.2g})", *health.notes]
    if health.unmatched_share is not None:
        lines.append(f"feedback without a matching list: {percent(health.unmatched_share)}")
    return lines


def confidence_text(experiment: ExperimentReport) -> str:
    """Explain the confidence of the intervals and the tolerated drop."""
    return (
        f"Intervals have {100 - 100 * experiment.alpha:g} % confidence and are safe to check at any time. "
        f"A drop of up to {100 * experiment.margin:g} % is tolerated."
    )
