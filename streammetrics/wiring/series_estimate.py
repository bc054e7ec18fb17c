"""Estimates how many series `/metrics` will have, before `exporter.series_max` is met, and which setting cuts most of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from streammetrics.config import Settings
from streammetrics.exporters.prometheus.series import TABLE
from streammetrics.reports.text import counted
from streammetrics.windows.panes import Group
from streammetrics.windows.user_counts import UserCountLayout
from streammetrics.wiring.engine import build_engine

NEAR_SHARE: Final = 0.8
"""From this share of the limit on, people are warned. The alert comes at nine tenths."""
VARIANTS: Final = 2
"""How many variants an experiment is taken to have if the settings do not name them."""
SEGMENT_VALUES: Final = 10
"""How many values each segment is taken to have."""
VIEWS: Final = 2
SCOPES: Final = 2
"""An experiment has series of the whole time and of the day."""
_OF_VARIANT: Final = sum(each.labels == ("experiment", "variant", "scope") for each in TABLE)
_OF_MEASURE: Final = sum(each.labels == ("experiment", "variant", "metric", "k", "scope") for each in TABLE)


@dataclass(frozen=True, slots=True)
class SeriesEstimate:
    """About how many series there will be (`series`), the limit, what they are (`parts`), and how to get fewer (`fix`)."""

    series: int
    limit: int
    parts: str
    fix: str

    @property
    def is_near(self) -> bool:
        return self.series >= NEAR_SHARE * self.limit

    @property
    def sentence(self) -> str:
        """Say how many series there will be, and what happens beyond the limit."""
        beyond = (
            "Series beyond it are left out of /metrics" if self.series > self.limit else f"That is {self.series / self.limit:.0%} of it"
        )
        return f"about {self.series:,} series, and exporter.series_max is {self.limit:,}: {self.parts}. {beyond}"


def expected_series(settings: Settings) -> SeriesEstimate:
    """Estimate the series by the settings alone: the experiments that they name, and ten values of each segment."""
    arms = 1 + (sum(_variants(settings)) or VARIANTS)
    values = SEGMENT_VALUES * len(settings.windows.segments)
    listed = f"all traffic and {counted(arms - 1, 'variant')}"
    if values:
        listed += f", each also by {SEGMENT_VALUES} values of {counted(len(settings.windows.segments), 'segment')}"
    return _estimate(settings, arms, arms * (1 + values), listed)


def series_of(settings: Settings, groups: Collection[Group]) -> SeriesEstimate:
    """Estimate the series of groups that have lists."""
    arms = sum(not group.segment for group in groups)
    listed = f"{counted(arms, 'group')} of all traffic and variants"
    if len(groups) > arms:
        listed += f" and {len(groups) - arms:,} of segment values"
    return _estimate(settings, arms, len(groups), listed)


def _variants(settings: Settings) -> Iterator[int]:
    """Yield the number of variants of each experiment that the settings name."""
    for named in settings.experiments.named.values():
        shares = named.shares or (named.stages[0].shares if named.stages else {})
        yield len(shares) or VARIANTS


def _estimate(settings: Settings, arms: int, groups: int, listed: str) -> SeriesEstimate:
    groups = min(groups, max(arms, settings.windows.groups_max))
    series, limit = _count(settings, arms, groups), settings.exporter.series_max
    windows, numbers = len(settings.windows.windows), 1 + _values(settings)
    parts = f"{listed}, in {counted(windows, 'window')}, final and live, with {numbers} numbers each"
    return SeriesEstimate(series, limit, parts, _fix(settings, arms, groups) if series >= NEAR_SHARE * limit else "")


def _values(settings: Settings) -> int:
    return len(build_engine(settings, settings.kafka.topics).layout.metrics)


def _count(settings: Settings, arms: int, groups: int) -> int:
    """Return the series of so many groups, `arms` of them without a segment."""
    engine = build_engine(settings, settings.kafka.topics)
    windows, layout = len(settings.windows.windows), engine.layout
    of_group = windows * (VIEWS * (1 + len(layout.metrics)) + 1)
    of_arm = 3 + len(layout.columns)
    if engine.rules.unique_users is not None:
        of_arm += windows * UserCountLayout(layout.scorer).kinds
    if (totals := engine.user_totals) is not None:
        of_arm += SCOPES * (_OF_VARIANT + _OF_MEASURE * len(totals.measures))
    return groups * of_group + arms * of_arm


def _fix(settings: Settings, arms: int, groups: int) -> str:
    """Say which setting cuts most series, and that the limit can be raised."""
    least = min(_cuts(settings, arms, groups), default=None)
    named = f"{least[1]} cuts most: about {least[0]:,} series {least[2]}. Or " if least else ""
    return f"{named}{'r' if named else 'R'}aise exporter.series_max; Prometheus then needs memory for them"


def _cuts(settings: Settings, arms: int, groups: int) -> Iterator[tuple[int, str, str]]:
    """Yield (series, setting, what it would be) for each setting that makes several series of one."""
    windows, metrics = settings.windows, settings.metrics
    if windows.segments and groups > arms:
        yield _count(settings, arms, arms), "windows.segments", "without segments"
    if len(windows.windows) > 1:
        one = settings.model_copy(update={"windows": windows.model_copy(update={"windows": windows.windows[:1]})})
        yield _count(one, arms, groups), "windows.windows", "with one window"
    for key, what in (("names", "one metric"), ("cutoffs", "one cut-off")):
        if len(given := getattr(metrics, key)) > 1:
            every = settings.experiments.model_copy(update={"metrics": ()})
            fewer = metrics.model_copy(update={key: given[:1]})
            yield (
                _count(settings.model_copy(update={"metrics": fewer, "experiments": every}), arms, groups),
                f"metrics.{key}",
                f"with {what}",
            )
