"""The table of alerts as files for Prometheus and Alertmanager: `python -m deploy.prometheus.generate`, from the root of the sources.

    python -m deploy.prometheus.generate --set lag_seconds=900 --metric mrr@20 --grafana https://grafana.example --out /etc/prometheus

Without options it writes the files beside it, which are committed; a test generates them again and compares.
"""

from __future__ import annotations

import argparse
import math
import re
import string
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from deploy.prometheus.table import ALERTS, INHIBITIONS, JOB, METRIC, RECORDED, THRESHOLDS, Alert, Inhibition
from streammetrics.metrics import METRIC_NAMES, parse_metric

HERE = Path(__file__).resolve().parent
HEADER = "# Generated from table.py by `python -m deploy.prometheus.generate`, which takes other thresholds, too: do not edit.\n"
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"(?<=\[)(\d+)(ms|[smhdw])(?=\])|(?<=offset )(\d+)(ms|[smhdw])\b")
SUMMED = tuple(name for name in METRIC_NAMES if name != "item_hit_rate")
"""The metrics of which sums over final lists are counted; item_hit_rate is a ratio of two."""
PREFIX = "Streammetrics"
"""How the name of every alert begins."""
_LINE_CHARS = 100


class _Marked(string.Template):
    """`@name` is replaced (`@@` is one @); `$` and braces mean something else in expressions and annotations."""

    delimiter = "@"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How the files are to be. `scale` shortens every span of time, so that a test sees in seconds what takes minutes in earnest.

    `metric` is what tells whether the ranking as a whole is as good as it was: one that the stream computes, or that alert never fires.

    Raises ValueError for a threshold that the table does not have or that is never or always passed, for a job that cannot stand
    between quotes, and for a metric of which no sum over final lists is kept.
    """

    job: str = JOB
    metric: str = METRIC
    runbooks: str = "deploy/runbooks/"
    grafana: str = ""
    scale: float = 1.0
    thresholds: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = {threshold.name for threshold in THRESHOLDS}
        if unknown := sorted(self.thresholds.keys() - known):
            raise ValueError(f"no such threshold: {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        for name, value in self.thresholds.items():
            if not 0 <= value < math.inf or (_is_share(name) and value > 1):
                raise ValueError(
                    f"{name}: got {value}; allowed are {'numbers from 0 to 1' if _is_share(name) else 'finite numbers from 0'}"
                )
        if not self.job or not self.job.isprintable() or any(mark in self.job for mark in '"\\{}'):
            raise ValueError(f"job: got {self.job!r}; allowed are printable characters but quotes, backslashes and braces")
        self.parsed_metric()

    def parsed_metric(self) -> tuple[str, int]:
        """The name and the cut-off of the metric."""
        metric = parse_metric(self.metric)
        if metric.name not in SUMMED or not metric.k:
            raise ValueError(f"metric: got {self.metric!r}; allowed are {', '.join(SUMMED)}, each with a cut-off, as in {METRIC}")
        return metric.name, metric.k

    def words(self) -> dict[str, str]:
        """What stands for each mark in an expression."""
        values = {each.name: self.thresholds.get(each.name, each.value * (self.scale if each.is_seconds else 1)) for each in THRESHOLDS}
        name, k = self.parsed_metric()
        return {"job": self.job, "metric": name, "k": str(k), **{name: _plain(value) for name, value in values.items()}}

    def spoken(self) -> dict[str, str]:
        """The same for people: shares as percentages."""
        return {name: _spoken(name, word) for name, word in self.words().items()}

    def span(self, text: str) -> str:
        """A span of time, scaled.

        >>> Wishes().span("5m"), Wishes(scale=0.01).span("5m"), Wishes(scale=0.01).span("0s")
        ('5m', '3s', '0s')
        """
        if self.scale == 1:
            return text
        number, unit = re.fullmatch(r"(\d+)(\D+)", text).groups()  # type: ignore[union-attr]  # the table's spans have this form
        ms = round(int(number) * _UNIT_MS[unit] * self.scale)
        return f"{ms // 1_000}s" if ms % 1_000 == 0 else f"{ms}ms"

    def expression(self, text: str) -> str:
        marked = _Marked(text).substitute(self.words())
        return _SPAN.sub(lambda found: self.span(found[0]), marked)


def _spoken(name: str, word: str) -> str:
    return f"{_plain(100 * float(word))} %" if _is_share(name) else word


def _is_share(name: str) -> bool:
    return name.endswith(("_share", "_warning", "_critical"))


def _plain(number: float) -> str:
    """A number without the last digits, which are those of binary fractions.

    >>> _plain(1_234_567.0), _plain(0.05), _plain(100 * 0.07)
    ('1234567', '0.05', '7')
    """
    return f"{number:.15g}"


def recording_rules(wishes: Wishes) -> dict[str, Any]:
    """The rule file of recorded series, as plain values."""
    rules = [{"record": each.name, "expr": wishes.expression(each.expression)} for each in RECORDED]
    return {"groups": [{"name": "streammetrics-recording", "rules": rules}]}


def alerting_rules(wishes: Wishes) -> dict[str, Any]:
    """The rule file of alerts, as plain values."""
    return {"groups": [{"name": "streammetrics-alerts", "rules": [alerting_rule(alert, wishes) for alert in ALERTS]}]}


def alerting_rule(alert: Alert, wishes: Wishes) -> dict[str, Any]:
    keeps = {"keep_firing_for": wishes.span(alert.keeps)} if alert.keeps else {}
    return {
        "alert": alert.name,
        "expr": wishes.expression(alert.expression),
        "for": wishes.span(alert.waits),
        **keeps,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": _Marked(alert.summary).substitute(wishes.spoken()),
            "description": _Marked(alert.description).substitute(wishes.spoken()),
            "runbook_url": f"{wishes.runbooks}{alert.name}.md",
            "dashboard_url": f"{wishes.grafana}/d/streammetrics-{alert.dashboard}?{_variables(alert)}",
        },
    }


def _variables(alert: Alert) -> str:
    """What the link says to the dashboard; the labels come from outside and may hold anything."""
    labels = ["job", *(["experiment"] if alert.dashboard == "experiment" else [])]
    return "&".join(f"var-{label}={{{{ $labels.{label} | urlquery }}}}" for label in labels)


def alertmanager(
    receivers: Sequence[Mapping[str, Any]] = ({"name": "page"}, {"name": "ticket"}), *, at_once: bool = False
) -> dict[str, Any]:
    """Alertmanager's configuration: the first receiver gets what is critical, the last the rest. `at_once` is for tests."""
    page, ticket = receivers[0]["name"], receivers[-1]["name"]
    waits = {"group_wait": "100ms", "group_interval": "1s"} if at_once else {"group_wait": "30s", "group_interval": "5m"}
    return {
        "route": {
            "receiver": ticket,
            "group_by": ["alertname", "job", "experiment"],
            **waits,
            "repeat_interval": "12h",
            "routes": [{"receiver": page, "matchers": ['severity="critical"'], "repeat_interval": "4h"}],
        },
        "inhibit_rules": [
            {
                "source_matchers": ['severity="critical"'],
                "target_matchers": ['severity="warning"'],
                "equal": ["alertname", "job", "experiment"],
            },
            *map(_inhibit_rule, INHIBITIONS),
        ],
        "receivers": list(receivers),
    }


def _inhibit_rule(inhibition: Inhibition) -> dict[str, Any]:
    targets = "|".join(name.removeprefix(PREFIX) for name in inhibition.targets)
    return {
        "source_matchers": [f'alertname="{inhibition.source}"'],
        "target_matchers": [f'alertname=~"{PREFIX}({targets})"'],
        "equal": list(inhibition.equal),
    }


class _Dumper(yaml.SafeDumper):
    """Expressions of several lines as blocks and lists indented, to be read."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)

RECEIVERS_NOTE = """\
# `page` wakes somebody, `ticket` waits for the morning. Both reach nobody until you give them a way, as in
#   - name: page
#     pagerduty_configs: [{routing_key_file: /etc/alertmanager/pagerduty}]
"""


def as_yaml(value: Mapping[str, Any]) -> str:
    return HEADER + yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False, width=_LINE_CHARS, allow_unicode=True)


def files(wishes: Wishes | None = None) -> dict[str, str]:
    """Every generated file by its name."""
    wishes = wishes or Wishes()
    return {
        "recording_rules.yml": as_yaml(recording_rules(wishes)),
        "alerting_rules.yml": as_yaml(alerting_rules(wishes)),
        "alertmanager.yml": as_yaml(alertmanager()).replace("receivers:\n", RECEIVERS_NOTE + "receivers:\n"),
    }


def main(words: Sequence[str] | None = None) -> int:
    usual = Wishes()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE, help="the folder to write to")
    parser.add_argument("--job", default=usual.job, help="the job that workers and exporters are scraped as (default: %(default)s)")
    parser.add_argument("--metric", default=usual.metric, help="what the ranking as a whole is judged by (default: %(default)s)")
    parser.add_argument("--grafana", default=usual.grafana, help="what comes before /d/ in links to dashboards")
    parser.add_argument("--runbooks", default=usual.runbooks, help="what comes before the name of a runbook page (default: %(default)s)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="THRESHOLD=NUMBER",
        help="; ".join(f"{each.name}={_plain(each.value)}" for each in THRESHOLDS),
    )
    given = parser.parse_args(words)
    try:
        thresholds = dict(map(_threshold, given.set))
        wishes = Wishes(job=given.job, metric=given.metric, runbooks=given.runbooks, grafana=given.grafana, thresholds=thresholds)
    except ValueError as error:
        parser.error(str(error))
    try:
        for name, text in files(wishes).items():
            (given.out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        parser.error(f"--out {given.out}: {error.strerror}")
    return 0


def _threshold(pair: str) -> tuple[str, float]:
    name, _, number = pair.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise ValueError(f"--set {pair}: write THRESHOLD=NUMBER, such as lag_seconds=900") from None


if __name__ == "__main__":
    sys.exit(main())
