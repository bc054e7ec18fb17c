"""The options of the generated files, and how they fill the placeholders of the table."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streammetrics.errors import CallerError
from streammetrics.exporters.prometheus.rules.thresholds import JOB, METRIC, THRESHOLDS
from streammetrics.exporters.prometheus.selectors import Selectors
from streammetrics.metrics import METRIC_NAMES, parse_metric

SUMMED: Final = tuple(name for name in METRIC_NAMES if name != "item_hit_rate")
"""The metrics with one sum over final lists. item_hit_rate is a ratio of two sums."""
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN: Final = re.compile(r"(?<=\[)(\d+)(ms|[smhdw])(?=\])|(?<=offset )(\d+)(ms|[smhdw])\b")
_QUERY: Final = re.compile(r'(?<=printf ")[^"]+(?=")')


class _Template(string.Template):
    """A text where `@name` is replaced, and `@@` is one @. `$` and braces keep their meaning in rules."""

    delimiter = "@"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """Options of the generated files. `scale` shortens every span of time, so that tests take seconds and not minutes.

    `metric` measures the ranking as a whole. The stream must compute it, or StreammetricsAllVariantsFell never fires. `grafana` is the part
    of links before /d/. `page` is the address of the live page; empty: that of an exporter as Prometheus scrapes it. `runbooks` is the
    part of links before the name of a runbook; empty: the exporter serves them, or GitHub without an exporter. `marks` is the address of
    an exporter that Alertmanager posts its alerts to, with the login of `marks_user`; empty for none. `selectors` has a prefix of the
    series names and labels that all series must have. What the rules record and their alerts have these labels too.

    Raises CallerError for an unknown threshold or one out of range, for a job, address or user that cannot be quoted, and for a metric
    without a sum over final lists.
    """

    job: str = JOB
    metric: str = METRIC
    runbooks: str = ""
    grafana: str = ""
    page: str = ""
    marks: str = ""
    marks_user: str = ""
    scale: float = 1.0
    thresholds: Mapping[str, float] = field(default_factory=dict)
    selectors: Selectors = field(default_factory=Selectors)

    def __post_init__(self) -> None:
        known = {threshold.name for threshold in THRESHOLDS}
        if unknown := sorted(self.thresholds.keys() - known):
            raise CallerError("threshold", f"got {', '.join(unknown)}; allowed are {', '.join(sorted(known))}")
        for name, value in self.thresholds.items():
            if not 0 <= value < math.inf or (_is_share(name) and value > 1):
                allowed = "numbers from 0 to 1" if _is_share(name) else "finite numbers from 0"
                raise CallerError(f"threshold {name}", f"got {value}; allowed are {allowed}")
        if not self.job or not self.job.isprintable() or any(mark in self.job for mark in '"\\{}'):
            raise CallerError("job", f"got {self.job!r}; allowed are printable characters without quotes, backslashes and braces")
        for name, address in (("runbooks", self.runbooks), ("grafana", self.grafana), ("page", self.page)):
            if not re.fullmatch(r"(https?://[^\s{}@]+|/[^\s{}@]*)?", address):
                raise CallerError(name, f"got {address!r}; allowed are addresses that begin with https://, http:// or /")
        if self.marks and not re.fullmatch(r"https?://[^\s{}@]+", self.marks):
            raise CallerError("marks", f"got {self.marks!r}; allowed are addresses of an exporter, such as http://exporter:9464")
        if self.marks_user and (not self.marks or ":" in self.marks_user or not self.marks_user.isprintable()):
            raise CallerError("marks-user", f"got {self.marks_user!r}; allowed are users of the exporter in --marks, without a colon")
        self.parsed_metric()

    def parsed_metric(self) -> tuple[str, int]:
        """Return the name and the cut-off of the metric."""
        metric = parse_metric(self.metric)
        if metric.name not in SUMMED or not metric.k:
            raise CallerError("metric", f"got {self.metric!r}; allowed are {', '.join(SUMMED)}, each with a cut-off, such as {METRIC}")
        return metric.name, metric.k

    def values(self) -> dict[str, str]:
        """Return the replacement for each `@name` in expressions."""
        thresholds = {each.name: self.thresholds.get(each.name, each.value * (self.scale if each.is_seconds else 1)) for each in THRESHOLDS}
        name, k = self.parsed_metric()
        return {"job": self.job, "metric": name, "k": str(k), **{name: plain(value) for name, value in thresholds.items()}}

    def span(self, text: str) -> str:
        """Scale a span of time.

        >>> RuleOptions().span("5m"), RuleOptions(scale=0.01).span("5m"), RuleOptions(scale=0.01).span("0s")
        ('5m', '3s', '0s')
        """
        if self.scale == 1:
            return text
        number, unit = re.fullmatch(r"(\d+)(\D+)", text).groups()  # type: ignore[union-attr]  # the table's spans have this form
        ms = round(int(number) * _UNIT_MS[unit] * self.scale)
        return f"{ms // 1_000}s" if ms % 1_000 == 0 else f"{ms}ms"

    def expression(self, text: str) -> str:
        """Fill an expression of the table."""
        marked = _Template(text).substitute(self.values())
        return self.selectors.grouped(self.selectors.applied(_SPAN.sub(lambda found: self.span(found[0]), marked)))

    def annotation(self, text: str) -> str:
        """Fill a text of the table. Shares become percentages; queries inside get the prefix and the labels."""
        texts = {name: _as_text(name, value) for name, value in self.values().items()}
        return _QUERY.sub(lambda found: self.selectors.applied(found[0], quote="'"), _Template(text).substitute(texts))


def _as_text(name: str, value: str) -> str:
    return f"{plain(100 * float(value))} %" if _is_share(name) else value


def _is_share(name: str) -> bool:
    return name.endswith(("_share", "_warning", "_critical"))


def plain(number: float) -> str:
    """Format a number without rounding noise of binary fractions.

    >>> plain(1_234_567.0), plain(0.05), plain(100 * 0.07)
    ('1234567', '0.05', '7')
    """
    return f"{number:.15g}"
