"""Why does a variant differ from the control? Where in the recent lists, and since when. Exploratory. Pure.

Contributions are exact, and add up to the difference of the recent lists (`experiments.contributions`). How sure they are is an estimate:
tallies have no squares, so the variance of a segment value's mean is taken from the whole arm. With the clustered variance V and N lists of
the arm in the experiment, n lists of the value have the variance V N / n. For means from 0 to 1 it is raised by m (1 - m) of the value over
that of the arm, if that is more. So it is clustered by user only as far as users share a value's lists as they share the arm's. An interval
is for one look, and shares its error among all values of the segment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple

from streammetrics.experiments import ExperimentReport, MeasureReport
from streammetrics.experiments.experiment_report import SINCE_START, VariantReport
from streammetrics.metrics import TallyLayout
from streammetrics.metrics.names import metric_text
from streammetrics.reports.experiment_lists import MeasureColumns, RecentLists, rank_columns
from streammetrics.reports.explanation_values import (
    Explanation,
    Onset,
    RankContribution,
    SegmentContributions,
    SegmentValue,
    summary_of,
    unknown_text,
)
from streammetrics.reports.report import Report
from streammetrics.statistics.contributions import (
    LISTS_MIN,
    Arm,
    Contribution,
    ListSpread,
    NamedValue,
    ValueLists,
    ValueSums,
    contributions,
    corrected_z,
    named_values,
    rank_contributions,
)
from streammetrics.statistics.estimates import Estimate, fieller_interval
from streammetrics.statistics.onset import change_point
from streammetrics.windows.panes import Group
from streammetrics.words.names import in_order, name_order
from streammetrics.words.sentences import parts_of

VARIANTS_MAX: Final = 6
"""Most variants of an experiment that are explained."""
VALUES_MAX: Final = 12
"""Most values of a segment that are shown; the others are added up."""


class _Case(NamedTuple):
    """One comparison to explain."""

    experiment: ExperimentReport
    variant: VariantReport
    measure: MeasureReport
    places: MeasureColumns
    spreads: tuple[ListSpread, ListSpread]


def explanations(report: Report, layout: TallyLayout) -> tuple[Explanation, ...]:
    """Explain the deciding measures of each compared variant, by its recent lists. Empty without recent lists of both arms."""
    recent = report.recent
    if recent is None:
        return ()
    explanations = (_explained(recent, layout, case) for case in _cases(report, recent))
    return tuple(explanation for explanation in explanations if explanation is not None)


def _cases(report: Report, recent: RecentLists) -> Iterator[_Case]:
    for experiment in report.experiments:
        control = next((variant for variant in experiment.variants if variant.variant == experiment.control), None)
        if experiment.scope != SINCE_START or control is None:
            continue
        places = recent.measures.get(experiment.experiment, {})
        for variant in [variant for variant in experiment.variants if variant.role == "treatment"][:VARIANTS_MAX]:
            for measure in variant.measures:
                key = measure.metric, measure.k
                against = next((other for other in control.measures if (other.metric, other.k) == key), None)
                name = metric_text(measure.metric, measure.k)
                if measure.paging and name in places and against is not None:
                    spreads = _spread(measure, variant), _spread(against, control)
                    if spreads[0] is not None and spreads[1] is not None:
                        yield _Case(experiment, variant, measure, places[name], (spreads[0], spreads[1]))


def _spread(measure: MeasureReport, variant: VariantReport) -> ListSpread | None:
    if measure.error is None or not 0 < measure.error < math.inf:
        return None
    return ListSpread(measure.error**2 * variant.lists, measure.mean)


def _explained(recent: RecentLists, layout: TallyLayout, case: _Case) -> Explanation | None:
    name, variant, control = case.experiment.experiment, case.variant.variant, case.experiment.control or ""
    arms = [recent.tallies.get(Group(name, arm)) for arm in (variant, control)]
    treated, against = arms
    if treated is None or against is None:
        return None
    of_own, of_against = case.places.sums(treated), case.places.sums(against)
    if not of_own[2] or not of_against[2]:
        return None
    unit = 1 << case.places.scale_bits
    means = [Fraction(top, unit * bottom) for _, top, bottom in (of_own, of_against)]
    ranks = rank_columns(layout, case.measure.metric, case.measure.k)
    segments = in_order(group.segment for group in recent.tallies if group.experiment == name and group.segment)
    difference = float(means[0] - means[1])
    named = _named(recent, case, segments, difference)
    parts = [_segment(recent, case, segment, named) for segment in segments]
    explanation = Explanation(
        experiment=name,
        variant=variant,
        against=control,
        metric=case.measure.metric,
        k=case.measure.k,
        from_ms=recent.from_ms,
        end_ms=recent.end_ms,
        lists=of_own[0],
        control_lists=of_against[0],
        mean=float(means[0]),
        control_mean=float(means[1]),
        difference=difference,
        segments=tuple(sorted(parts, key=lambda segment: (not segment.stands_out, name_order(segment.segment)))),
        ranks_of=None if ranks is None else ranks.family,
        ranks=() if ranks is None else _ranks(ranks.cutoffs, ranks.places, treated, against),
        onset=_onset(recent, case),
        summary=(),
    )
    summary = tuple(summary_of(explanation))
    unknown = "" if summary else unknown_text(explanation)
    return replace(explanation, summary=tuple(map(str, summary)), summary_parts=tuple(map(parts_of, summary)), unknown=unknown)


def _ranks(
    cutoffs: Sequence[int], places: Sequence[MeasureColumns], treated: Sequence[int], against: Sequence[int]
) -> tuple[RankContribution, ...]:
    last = places[-1]
    tops = [[arm[place.top] for place in places] for arm in (treated, against)]
    contributions = rank_contributions(tops[0], tops[1], (treated[last.bottom], against[last.bottom]), last.scale_bits)
    firsts = [1, *(cutoff + 1 for cutoff in cutoffs)]
    return tuple(
        RankContribution(first, cutoff, float(contribution))
        for first, cutoff, contribution in zip(firsts, cutoffs, contributions, strict=False)
    )


def _sums(recent: RecentLists, case: _Case, segment: str) -> tuple[dict[str, tuple[int, int, int]], dict[str, tuple[int, int, int]]]:
    """Return lists, top and bottom of each value of a segment, in the treatment and in the control."""
    sums: tuple[dict[str, tuple[int, int, int]], dict[str, tuple[int, int, int]]] = {}, {}
    for side, variant in zip(sums, (case.variant.variant, case.experiment.control or ""), strict=True):
        for group, tally in recent.tallies.items():
            if (group.experiment, group.variant, group.segment) == (case.experiment.experiment, variant, segment):
                side[group.value] = case.places.sums(tally)
    return sums


def _named(recent: RecentLists, case: _Case, segments: Sequence[str], difference: float) -> dict[tuple[str, str], NamedValue]:
    """Return the values of all segments that may be named. The effective users are those of the experiment, for as many lists."""
    unit = 1 << case.places.scale_bits
    control = next(variant for variant in case.experiment.variants if variant.variant == case.experiment.control)
    arms = []
    for at, (variant, spread) in enumerate(zip((case.variant, control), case.spreads, strict=True)):
        by_segment = {segment: _sums(recent, case, segment)[at] for segment in segments}
        lists = max((sum(cells[0] for cells in side.values()) for side in by_segment.values()), default=0)
        effective = lists * min(1.0, variant.effective_users / variant.lists)
        values = {
            segment: {value: ValueLists(count, top / unit, bottom) for value, (count, top, bottom) in side.items() if bottom}
            for segment, side in by_segment.items()
        }
        arms.append(Arm(effective, spread, values))
    return named_values(arms[0], arms[1], difference, case.experiment.alpha)


def _segment(recent: RecentLists, case: _Case, segment: str, named: Mapping[tuple[str, str], NamedValue]) -> SegmentContributions:
    """Return the contributions of a segment's values, those that matter most first, and the rest as a sum. Named values are all shown."""
    sums = _sums(recent, case, segment)
    treatment, control = ({value: ValueSums(*cells[1:]) for value, cells in side.items()} for side in sums)
    parts = contributions(treatment, control, case.places.scale_bits)
    lists = {value: tuple(side.get(value, (0, 0, 0))[0] for side in sums) for value in parts}
    sure = {value: part for value, part in parts.items() if min(lists[value]) >= LISTS_MIN}
    estimates = {value: _estimates(case, part, lists[value]) for value, part in sure.items()}
    z = corrected_z(case.experiment.alpha, len(estimates))
    values = [_value(value, parts[value], lists[value], estimates.get(value), z) for value in parts]
    values = [_with_name(value, named.get((segment, value.value))) for value in values]
    values.sort(key=lambda value: (not value.is_named, -abs(value.contribution), name_order(value.value)))
    rest = values[VALUES_MAX:]
    largest = sorted(values[:VALUES_MAX], key=lambda value: (-abs(value.contribution), name_order(value.value)))
    return SegmentContributions(
        segment=segment,
        stands_out=any(value.is_named for value in values),
        values=tuple(largest),
        others=len(rest),
        others_contribution=float(sum((parts[value.value].total for value in rest), Fraction(0))),
    )


def _estimates(case: _Case, part: Contribution, lists: Sequence[int]) -> tuple[Estimate, Estimate]:
    """Return the mean and variance of a segment value in both arms."""
    means = [float(mean or 0) for mean in (part.mean, part.control_mean)]
    treated, against = (
        Estimate(mean, spread.variance(count, mean), count) for mean, spread, count in zip(means, case.spreads, lists, strict=True)
    )
    return treated, against


def _value(value: str, part: Contribution, lists: Sequence[int], estimates: tuple[Estimate, Estimate] | None, z: float) -> SegmentValue:
    mean, control_mean = (None if exact is None else float(exact) for exact in (part.mean, part.control_mean))
    interval = None if estimates is None else fieller_interval(*estimates, z)
    return SegmentValue(
        value=value,
        lists=lists[0],
        control_lists=lists[1],
        share=float(part.share + part.control_share) / 2,
        mean=mean,
        control_mean=control_mean,
        lift=mean / control_mean - 1 if mean is not None and control_mean else None,
        lift_lower=interval.lower if interval else None,
        lift_upper=interval.upper if interval else None,
        within=float(part.within),
        mix=float(part.mix),
        contribution=float(part.total),
    )


def _with_name(value: SegmentValue, named: NamedValue | None) -> SegmentValue:
    return value if named is None else replace(value, moved=named.moved, others_lift=named.others_lift)


def _onset(recent: RecentLists, case: _Case) -> Onset | None:
    """Return when the difference changed; None if it cannot be told. Short spans are joined until both arms have LISTS_MIN lists."""
    name, control = case.experiment.experiment, case.experiment.control or ""
    at = 1 + 2 * list(recent.measures[name]).index(metric_text(case.measure.metric, case.measure.k))
    ends, differences, variances = [], [], []
    sums = [[0, 0, 0], [0, 0, 0]]
    for span in recent.spans:
        for side, variant in zip(sums, (case.variant.variant, control), strict=True):
            group_sums = span.sums.get((name, variant))
            if group_sums is not None:
                for place, number in enumerate((group_sums[0], group_sums[at], group_sums[at + 1])):
                    side[place] += number
        if min(side[0] for side in sums) >= LISTS_MIN and all(side[2] for side in sums):
            means = [side[1] / (side[2] << case.places.scale_bits) for side in sums]
            ends.append(span.end_ms)
            differences.append(means[0] - means[1])
            variances.append(sum(spread.per_list / side[0] for spread, side in zip(case.spreads, sums, strict=True)))
            sums = [[0, 0, 0], [0, 0, 0]]
    found_change = change_point(differences, variances, case.experiment.minimum_lift * case.spreads[1].mean, case.experiment.alpha)
    if found_change is None:
        return None
    return Onset(
        ends[found_change.place],
        ends[found_change.first - 1] if found_change.first else recent.from_ms,
        ends[found_change.last],
        found_change.before,
        found_change.after,
    )
