"""The rules and the routes of deploy/prometheus, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.paths import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SPAN = re.compile(r"(?<=\[)(\d+)(ms|[smhdw])(?=\])|(?<=offset )(\d+)(ms|[smhdw])\b|^(\d+)(ms|[smhdw])$")
_LAG = re.compile(r"(?<=job:streammetrics_lag_seconds:max > )\d+")


@dataclass(frozen=True, slots=True)
class Alert:
    """One alerting rule. An alert with two severities has two."""

    name: str
    severity: str
    expression: str
    waits: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While `source` fires, its `targets` are silent."""

    source: str
    targets: tuple[str, ...]


def read(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def rules_of(name: str) -> list[dict[str, Any]]:
    (group,) = read(name)["groups"]
    return list(group["rules"])


ALERTS = [
    Alert(rule["alert"], rule["labels"]["severity"], rule["expr"], rule["for"], rule["annotations"])
    for rule in rules_of("alerting_rules.yml")
]
RECORDED: Mapping[str, str] = {rule["record"]: rule["expr"] for rule in rules_of("recording_rules.yml")}
"""The expressions of the recording rules, by name and in their order."""


def _inhibitions() -> list[Inhibition]:
    inhibitions = []
    for rule in read("alertmanager.yml")["inhibit_rules"]:
        if source := re.fullmatch(r'alertname="(\w+)"', rule["source_matchers"][0]):
            targets = re.fullmatch(r'alertname=~"(\w+)\(([\w|]+)\)"', rule["target_matchers"][0])
            assert targets, rule
            inhibitions.append(Inhibition(source[1], tuple(f"{targets[1]}{target}" for target in targets[2].split("|"))))
    return inhibitions


INHIBITIONS = _inhibitions()
"""Those between alerts of different names."""


def span_ms(span: str) -> int:
    """
    >>> span_ms("5m"), span_ms("1500ms")
    (300000, 1500)
    """
    number, unit = re.fullmatch(r"(\d+)(\D+)", span).groups()  # type: ignore[union-attr]
    return int(number) * UNIT_MS[unit]


def shortened(text: str, scale: float) -> str:
    """Multiply each span of time in an expression, or one span alone.

    >>> shortened("rate(a[5m]) > b offset 1w and job:streammetrics_lag_seconds:max > 300", 1 / 100)
    'rate(a[3000ms]) > b offset 6048000ms and job:streammetrics_lag_seconds:max > 3'
    >>> shortened("5m", 1 / 100)
    '3000ms'
    """
    spans = _SPAN.sub(lambda span: f"{round(span_ms(span[0]) * scale)}ms", text)
    return _LAG.sub(lambda seconds: f"{int(seconds[0]) * scale:g}", spans)


def quick_rules(scale: float, page: str) -> dict[str, dict[str, Any]]:
    """Return the rule files as values, by name, with shorter spans of time and the address of the page."""
    files = {path.name: read(path.name) for path in FOLDER.glob("*_rules.yml")}
    for rule in (rule for file in files.values() for group in file["groups"] for rule in group["rules"]):
        rule |= {key: shortened(rule[key], scale) for key in ("expr", "for", "keep_firing_for") if key in rule}
        if "annotations" in rule:
            rule["annotations"] = {name: text.replace("http://localhost:9464", page) for name, text in rule["annotations"].items()}
    return files


def quick_routes(receivers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the configuration of Alertmanager with other receivers and without waiting times."""
    routes: dict[str, Any] = read("alertmanager.yml")
    routes["route"] |= {"group_wait": "100ms", "group_interval": "1s"}
    return routes | {"receivers": list(receivers)}
