"""Headline metrics: the few measures that are shown first, on a terminal, on a page and in the history. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from streammetrics.experiments import ExperimentReport
from streammetrics.metrics.records import METRICS

Named: TypeAlias = tuple[str, int]
"""A measure: its family and cut-off k."""

FAMILIES: Final = tuple(name for name, record in METRICS.items() if record.is_headline)
"""Headline families, most important first."""
CUTOFF: Final = 10
MEASURES_MAX: Final = 6
"""Most headline measures of an experiment."""


def choose_headline(measured: Iterable[Named], always: Iterable[Named] = (), *, at_most: int) -> tuple[Named, ...]:
    """Return the measures in `always`, then one measure of each other headline family, at CUTOFF if it exists.

    If that gives none, return the first measures.

    >>> choose_headline([("mrr", 5), ("mrr", 10), ("ndcg", 20), ("map", 5)], at_most=6)
    (('ndcg', 20), ('mrr', 10))
    >>> choose_headline([("mrr", 5), ("mrr", 10), ("ndcg", 20)], always=[("mrr", 5)], at_most=6)
    (('mrr', 5), ('ndcg', 20))
    >>> choose_headline([("recall", 5), ("recall", 10), ("map", 5)], at_most=2)
    (('recall', 5), ('recall', 10))
    """
    measured, chosen = dict.fromkeys(measured), dict.fromkeys(always)
    for family in FAMILIES:
        cutoffs = [k for name, k in measured if name == family]
        if cutoffs and not any(name == family for name, _ in chosen):
            chosen[family, CUTOFF if CUTOFF in cutoffs else cutoffs[0]] = None
    return tuple(chosen or measured)[:at_most]


def headline_measures(experiment: ExperimentReport) -> tuple[Named, ...]:
    """Return the headline measures of an experiment: those that may page, then one per headline family; at most MEASURES_MAX."""
    measured = {(measure.metric, measure.k): measure for variant in experiment.variants for measure in variant.measures}
    paging = [name for name, measure in measured.items() if measure.paging]
    return choose_headline(measured, paging, at_most=MEASURES_MAX)
