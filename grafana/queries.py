"""PromQL from the table of series. Names and labels are checked here, so that a query of a series that is not there fails when written.

What comes from committed state is the same on every process that shows it. So it is aggregated by `max` over processes, never
added up: `state` and `state_rate`. What a process tells of itself is added up: `loop` and `loop_rate`. Values of a label that
are compared by `=` are the same in all rows and drop out of the result; all other labels of the family stay.
"""

from __future__ import annotations

from collections.abc import Iterable

from grafana.families import BUCKET, FAMILIES
from streammetrics.exporters.prometheus.series import Series

RATE = "$__rate_interval"
OF_TARGET = frozenset({"job", "instance"})
"""Labels that Prometheus adds to every series of a scraped page."""

EXPERIMENT = '="$experiment"'
VARIANT = '=~"$variant"'
METRIC = '="$metric"'
SCOPE = '="$scope"'
ONE_K = '="$k"'
KS = '=~"$k"'
WINDOWS = '=~"$window"'
SEGMENTS = '=~"$segments"'
NONE = '=""'
ANY = '!=""'


class QueryError(ValueError):
    """A query that asks for a series or a label which is not in the table."""


def family(name: str) -> Series:
    """A family by the name that a query says."""
    try:
        return FAMILIES[name.removesuffix(BUCKET)]
    except KeyError:
        raise QueryError(f"{name} is no series of the table") from None


def selector(name: str, *, over: str = "", offset: str = "", **matchers: str) -> str:
    """`name{...}` of the job, with matchers such as variant='=~"$variant"'; `over` (a range) and `offset` follow it.

    >>> selector("streammetrics_tasks", offset="1d")
    'streammetrics_tasks{job=~"$job"} offset 1d'
    """
    known = {*family(name).labels, *OF_TARGET, "le"}
    if unknown := matchers.keys() - known:
        raise QueryError(f"{name} has no label {', '.join(sorted(unknown))}; it has {', '.join(family(name).labels) or 'none'}")
    braces = ", ".join(['job=~"$job"', *(f"{label}{matcher}" for label, matcher in matchers.items())])
    return f"{name}{{{braces}}}{f'[{over}]' if over else ''}{f' offset {offset}' if offset else ''}"


def state(name: str, *, offset: str = "", **matchers: str) -> str:
    """A gauge from committed state, once for all processes that show it.

    >>> state("streammetrics_experiment_users", experiment='="$experiment"', scope='="$scope"')
    'max by (variant) (streammetrics_experiment_users{job=~"$job", experiment="$experiment", scope="$scope"})'
    """
    _require(name, "state", "gauge", "info")
    return by("max", _open_labels(name, matchers), selector(name, offset=offset, **matchers))


def state_rate(name: str, per: Iterable[str] | None = None, *, over: str = RATE, function: str = "rate", **matchers: str) -> str:
    """What a counter from committed state gains, by the labels `per` (None: by all that are open).

    >>> state_rate("streammetrics_late_total", [])
    'sum (max by (topic) (rate(streammetrics_late_total{job=~"$job"}[$__rate_interval])))'
    """
    _require(name, "state", "counter")
    labels = _open_labels(name, matchers)
    inner = by("max", labels, f"{function}({selector(name, over=over, **matchers)})")
    return inner if per is None else by("sum", per, inner)


def loop(name: str, per: Iterable[str], how: str = "sum", **matchers: str) -> str:
    """A gauge of processes, added up (or taken by `how`) by the labels `per`."""
    _require(name, "loop", "gauge", "info")
    return by(how, per, selector(name, **matchers))


def loop_rate(name: str, per: Iterable[str], *, function: str = "rate", **matchers: str) -> str:
    """What a counter of processes gains, added up by the labels `per`.

    >>> loop_rate("streammetrics_commits_total", ["status"])
    'sum by (status) (rate(streammetrics_commits_total{job=~"$job"}[$__rate_interval]))'
    """
    _require(name, "loop", "counter")
    return by("sum", per, f"{function}({selector(name, over=RATE, **matchers)})")


def quantile(q: float, histogram: str) -> str:
    """A quantile of a histogram of processes, over all of them."""
    _require(histogram, "loop", "histogram")
    return f"histogram_quantile({q:g}, sum by (le) (rate({selector(histogram + BUCKET, over=RATE)})))"


def by(how: str, labels: Iterable[str], inner: str) -> str:
    """An aggregation; without labels, over everything.

    >>> by("sum", [], "x"), by("max", ["a", "b"], "x")
    ('sum (x)', 'max by (a, b) (x)')
    """
    named = ", ".join(labels)
    return f"{how} by ({named}) ({inner})" if named else f"{how} ({inner})"


def _open_labels(name: str, matchers: dict[str, str]) -> list[str]:
    fixed = {label for label, matcher in matchers.items() if matcher.startswith("=") and not matcher.startswith("=~")}
    return [label for label in family(name).labels if label not in fixed]


def _require(name: str, origin: str, *kinds: str) -> None:
    found = family(name)
    if found.kind not in kinds or (found.origin == "state") != (origin == "state"):
        raise QueryError(f"{name} is a {found.kind} of the {found.origin}; wanted is a {' or '.join(kinds)} of the {origin}")
