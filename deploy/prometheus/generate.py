"""Generate the files for Prometheus and Alertmanager: run `python -m deploy.prometheus.generate` in the root of the sources.

    python -m deploy.prometheus.generate --set lag_seconds=900 --metric mrr@20 --grafana https://grafana.example --out /etc/prometheus

Without options it writes the committed files beside this module. A test checks that they are current.
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
HEADER = "# Generated from table.py by `python -m deploy.prometheus.generate`. Do not edit. Its options set other thresholds.\n"
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"(?<=\[)(\d+)(ms|[smhdw])(?=\])|(?<=offset )(\d+)(ms|[smhdw])\b")
SUMMED = tuple(name for name in METRIC_NAMES if name != "item_hit_rate")
"""The metrics with one sum over final lists. item_hit_rate is a ratio of two sums."""
PREFIX = "Streammetrics"
"""The start of every alert name."""
_LINE_CHARS = 100


class _Template(string.Template):
    """A text where `@name` is replaced, and `@@` is one @. `$` and braces keep their meaning in rules."""

    delimiter = "@"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """Options of the generated files. `scale` shortens every span of time, so that tests take seconds and not minutes.

    `metric` measures the ranking as a whole. The stream must compute it, or StreammetricsAllVariantsFell never fires.

    Raises ValueError for an unknown threshold or one out of range, for a job that cannot be quoted, and for a metric without a sum
    over final lists.
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
            raise ValueError(f"unknown threshold: {', '.join(unknown)}; allowed are {', '.join(sorted(known))}")
        for name, value in self.thresholds.items():
            if not 0 <= value < math.inf or (_is_share(name) and value > 1):
                raise ValueError(
                    f"{name}: got {value}; allowed are {'numbers from 0 to 1' if _is_share(name) else 'finite numbers from 0'}"
                )
        if not self.job or not self.job.isprintable() or any(mark in self.job for mark in '"\\{}'):
            raise ValueError(f"job: got {self.job!r}; allowed are printable characters without quotes, backslashes and braces")
        self.parsed_metric()

    def parsed_metric(self) -> tuple[str, int]:
        """Return the name and the cut-off of the metric."""
        metric = parse_metric(self.metric)
        if metric.name not in SUMMED or not metric.k:
            raise ValueError(f"metric: got {self.metric!r}; allowed are {', '.join(SUMMED)}, each with a cut-off, such as {METRIC}")
        return metric.name, metric.k

    def values(self) -> dict[str, str]:
        """Return the replacement for each `@name` in expressions."""
        thresholds = {each.name: self.thresholds.get(each.name, each.value * (self.scale if each.is_seconds else 1)) for each in THRESHOLDS}
        name, k = self.parsed_metric()
        return {"job": self.job, "metric": name, "k": str(k), **{name: _plain(value) for name, value in thresholds.items()}}

    def texts(self) -> dict[str, str]:
        """Return the replacements for annotations, with shares as percentages."""
        return {name: _as_text(name, value) for name, value in self.values().items()}

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
        marked = _Template(text).substitute(self.values())
        return _SPAN.sub(lambda found: self.span(found[0]), marked)


def _as_text(name: str, value: str) -> str:
    return f"{_plain(100 * float(value))} %" if _is_share(name) else value


def _is_share(name: str) -> bool:
    return name.endswith(("_share", "_warning", "_critical"))


def _plain(number: float) -> str:
    """Format a number without rounding noise of binary fractions.

    >>> _plain(1_234_567.0), _plain(0.05), _plain(100 * 0.07)
    ('1234567', '0.05', '7')
    """
    return f"{number:.15g}"


def recording_rules(options: RuleOptions) -> dict[str, Any]:
    """Return the file of recording rules as plain values."""
    rules = [{"record": each.name, "expr": options.expression(each.expression)} for each in RECORDED]
    return {"groups": [{"name": "streammetrics-recording", "rules": rules}]}


def alerting_rules(options: RuleOptions) -> dict[str, Any]:
    """Return the file of alerting rules as plain values."""
    return {"groups": [{"name": "streammetrics-alerts", "rules": [alerting_rule(alert, options) for alert in ALERTS]}]}


def alerting_rule(alert: Alert, options: RuleOptions) -> dict[str, Any]:
    keeps = {"keep_firing_for": options.span(alert.keeps)} if alert.keeps else {}
    return {
        "alert": alert.name,
        "expr": options.expression(alert.expression),
        "for": options.span(alert.waits),
        **keeps,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": _Template(alert.summary).substitute(options.texts()),
            "description": _Template(alert.description).substitute(options.texts()),
            "runbook_url": f"{options.runbooks}{alert.name}.md",
            "dashboard_url": f"{options.grafana}/d/streammetrics-{alert.dashboard}?{_variables(alert)}",
        },
    }


def _variables(alert: Alert) -> str:
    """Return the query string of the link to the dashboard. Labels come from outside, so they are quoted."""
    labels = ["job", *(["experiment"] if alert.dashboard == "experiment" else [])]
    return "&".join(f"var-{label}={{{{ $labels.{label} | urlquery }}}}" for label in labels)


def alertmanager(
    receivers: Sequence[Mapping[str, Any]] = ({"name": "page"}, {"name": "ticket"}), *, at_once: bool = False
) -> dict[str, Any]:
    """Return the configuration of Alertmanager.

    The first receiver gets critical alerts, the last one all others. `at_once` removes waiting times, for tests.
    """
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
    """Write expressions of several lines as blocks, and indent lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)

RECEIVERS_NOTE = """\
# `page` is for alerts that need someone now, `ticket` for the rest. Both are empty until you configure them, for example:
#   - name: page
#     pagerduty_configs: [{routing_key_file: /etc/alertmanager/pagerduty}]
"""


def as_yaml(value: Mapping[str, Any]) -> str:
    return HEADER + yaml.dump(dict(value), Dumper=_Dumper, sort_keys=False, width=_LINE_CHARS, allow_unicode=True)


def files(options: RuleOptions | None = None) -> dict[str, str]:
    """Return every generated file by name."""
    options = options or RuleOptions()
    return {
        "recording_rules.yml": as_yaml(recording_rules(options)),
        "alerting_rules.yml": as_yaml(alerting_rules(options)),
        "alertmanager.yml": as_yaml(alertmanager()).replace("receivers:\n", RECEIVERS_NOTE + "receivers:\n"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    defaults = RuleOptions()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE, help="output folder")
    parser.add_argument("--job", default=defaults.job, help="the scrape job of workers and exporters (default: %(default)s)")
    parser.add_argument("--metric", default=defaults.metric, help="the metric for the quality of all traffic (default: %(default)s)")
    parser.add_argument("--grafana", default=defaults.grafana, help="the part before /d/ in links to dashboards")
    parser.add_argument("--runbooks", default=defaults.runbooks, help="the part before the name of a runbook page (default: %(default)s)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="THRESHOLD=NUMBER",
        help="; ".join(f"{each.name}={_plain(each.value)}" for each in THRESHOLDS),
    )
    parsed = parser.parse_args(arguments)
    try:
        thresholds = dict(map(_threshold, parsed.set))
        options = RuleOptions(job=parsed.job, metric=parsed.metric, runbooks=parsed.runbooks, grafana=parsed.grafana, thresholds=thresholds)
    except ValueError as error:
        parser.error(str(error))
    try:
        for name, text in files(options).items():
            (parsed.out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        parser.error(f"--out {parsed.out}: {error.strerror}")
    return 0


def _threshold(pair: str) -> tuple[str, float]:
    name, _, number = pair.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise ValueError(f"--set {pair}: write THRESHOLD=NUMBER, such as lag_seconds=900") from None


if __name__ == "__main__":
    sys.exit(main())
