"""Build PromQL from the table of series. Names and labels are checked, so a query with an unknown series raises QueryError.

All publishing processes show the same committed state. `state` and `state_rate` therefore take `max` over processes. `loop` and
`loop_rate` add up the series that each process has of its own. Labels compared by `=` drop out of the result; all others stay.
"""

from __future__ import annotations

from collections.abc import Iterable

from grafana.known_series import BUCKET, KNOWN_SERIES
from streammetrics.exporters.prometheus.family import Series

RATE = "$__rate_interval"
OF_TARGET = frozenset({"job", "instance"})
"""Labels that Prometheus adds to every scraped series."""

EXPERIMENT = '="$experiment"'
VARIANT = '=~"$variant"'
METRIC = '="$metric"'
SCOPE = '="$scope"'
ONE_K = '=~"$k|"'
KS = '=~"$k|"'
"""The chosen cut-offs, and metrics without one."""
WINDOWS = '=~"$window"'
SEGMENTS = '=~"$segments"'
NONE = '=""'
ANY = '!=""'


class QueryError(ValueError):
    """A query has a series or a label that is not in the table."""


def family(name: str) -> Series:
    """Return a series by name. Raises QueryError for an unknown one."""
    try:
        return KNOWN_SERIES[name.removesuffix(BUCKET)]
    except KeyError:
        raise QueryError(f"{name} is not in the table of series") from None


def selector(name: str, *, over: str = "", offset: str = "", **matchers: str) -> str:
    """Return `name{...}` for the job, with matchers such as variant='=~"$variant"', a range `over` and an `offset`.

    >>> selector("streammetrics_tasks", offset="1d")
    'streammetrics_tasks{job=~"$job"} offset 1d'
    """
    known = {*family(name).labels, *OF_TARGET, "le"}
    if unknown := matchers.keys() - known:
        raise QueryError(f"{name} has no label {', '.join(sorted(unknown))}; it has {', '.join(family(name).labels) or 'none'}")
    braces = ", ".join(['job=~"$job"', *(f"{label}{matcher}" for label, matcher in matchers.items())])
    return f"{name}{{{braces}}}{f'[{over}]' if over else ''}{f' offset {offset}' if offset else ''}"


def state(name: str, *, offset: str = "", **matchers: str) -> str:
    """Query a gauge of committed state, once for all processes.

    >>> state("streammetrics_experiment_users", experiment='="$experiment"', scope='="$scope"')
    'max by (variant) (streammetrics_experiment_users{job=~"$job", experiment="$experiment", scope="$scope"})'
    """
    _require(name, "state", "gauge", "info")
    return by("max", _open_labels(name, matchers), selector(name, offset=offset, **matchers))


def state_rate(name: str, per: Iterable[str] | None = None, *, over: str = RATE, function: str = "rate", **matchers: str) -> str:
    """Query the rate of a counter of committed state, by the labels `per` (None: all labels without a fixed value).

    >>> state_rate("streammetrics_late_total", [])
    'sum (max by (topic) (rate(streammetrics_late_total{job=~"$job"}[$__rate_interval])))'
    """
    _require(name, "state", "counter")
    labels = _open_labels(name, matchers)
    inner = by("max", labels, f"{function}({selector(name, over=over, **matchers)})")
    return inner if per is None else by("sum", per, inner)


def loop(name: str, per: Iterable[str], how: str = "sum", **matchers: str) -> str:
    """Query a gauge of processes, aggregated by `how` over all but the labels `per`."""
    _require(name, "loop", "gauge", "info")
    return by(how, per, selector(name, **matchers))


def loop_rate(name: str, per: Iterable[str], *, function: str = "rate", **matchers: str) -> str:
    """Query the rate of a counter of processes, summed by the labels `per`.

    >>> loop_rate("streammetrics_commits_total", ["status"])
    'sum by (status) (rate(streammetrics_commits_total{job=~"$job"}[$__rate_interval]))'
    """
    _require(name, "loop", "counter")
    return by("sum", per, f"{function}({selector(name, over=RATE, **matchers)})")


def quantile(q: float, histogram: str) -> str:
    """Query a quantile of a histogram over all processes."""
    _require(histogram, "loop", "histogram")
    return f"histogram_quantile({q:g}, sum by (le) (rate({selector(histogram + BUCKET, over=RATE)})))"


def by(how: str, labels: Iterable[str], inner: str) -> str:
    """Return an aggregation by labels, or over everything.

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
        raise QueryError(f"{name} is a {found.kind} of the {found.origin}; expected a {' or '.join(kinds)} of the {origin}")
