"""Compares the report and the panes of a running system with those of a replay. Every number that differs is a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

PaneName: TypeAlias = tuple[int, str, str, str]
"""The start of a final pane (epoch ms), and the experiment, variant and segments of a group."""


def pane_differences(online: Path, offline: Path) -> list[str]:
    """Compare the final panes of the span that both sides have, as integers. A pane or group that is missing counts as 0.

    online, offline: files of `--panes`, or of the values of a results topic, one per line.
    """
    ours, theirs = _panes(online), _panes(offline)
    first, last = max(min(ours)[0], min(theirs)[0]), min(max(ours)[0], max(theirs)[0])
    if first > last:
        return ["the two sides have no pane in common"]
    names = sorted(name for name in ours.keys() | theirs.keys() if first <= name[0] <= last)
    return [line for name in names for line in _changed(name, ours.get(name, {}), theirs.get(name, {}))]


def report_differences(online: Mapping[str, Any], offline: Mapping[str, Any]) -> list[str]:
    """Compare counters, totals, and the users, lists and means of experiments. Both reports must be final up to the same time."""
    ends = [(report["ended"], report["final_ms"]) for report in (online, offline)]
    if ends[0] != ends[1]:
        return [f"the reports end at different times: online {ends[0]}, offline {ends[1]}"]
    ours, theirs = (dict(_numbers(report)) for report in (online, offline))
    return [line for name in sorted(ours.keys() | theirs.keys()) for line in _changed(name, ours.get(name, {}), theirs.get(name, {}))]


def _changed(name: object, online: Mapping[str, float], offline: Mapping[str, float]) -> Iterator[str]:
    for what in dict.fromkeys([*online, *offline]):
        values = online.get(what, 0), offline.get(what, 0)
        if values[0] != values[1]:
            yield f"{name} {what}: online {values[0]}, offline {values[1]}"


def _numbers(report: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, float]]]:
    yield ("counters",), report["counters"]
    for group in report["totals"]:
        answered = {f"{name} with feedback": value for name, value in group["values_with_feedback"].items()}
        lists = {"lists": group["lists"], "lists_with_feedback": group["lists_with_feedback"]}
        yield ("totals", group["experiment"], group["variant"]), {**lists, **group["values"], **answered}
    for one in report["experiments"]:
        for variant in one["variants"]:
            means = {f"{measure['metric']}@{measure['k']}": measure["mean"] for measure in variant["measures"]}
            numbers = {"lists": variant["lists"], "users": variant["users"], **means}
            yield ("experiment", one["experiment"], one["scope"], variant["variant"]), numbers


def _panes(path: Path) -> dict[PaneName, dict[str, float]]:
    """The integers of each group of final panes, by name. A metric has a numerator and a denominator."""
    panes: dict[PaneName, dict[str, float]] = {}
    for line in map(json.loads, path.read_bytes().splitlines()):
        if line.get("view", "final") == "final" and line.get("type", "pane") == "pane":
            segments = line["segments"]
            if isinstance(segments, dict):
                segments = ",".join(f"{name}={value}" for name, value in sorted(segments.items()))
            sums = dict(_sums(line["metrics"], line["lists"]))
            counts = {"lists": line["lists"], "lists_with_feedback": line["lists_with_feedback"]}
            panes[line["pane_start_ms"], line["experiment"], line["variant"], segments] = counts | sums
    return panes


def _sums(metrics: Any, lists: int) -> Iterator[tuple[str, int]]:
    if isinstance(metrics, list):  # of a record of the results topic
        for one in metrics:
            name = f"{one['metric']}@{one['k']}" if one["k"] else one["metric"]
            yield name, one["numerator"]
            yield f"{name} denominator", one["denominator"]
        return
    for name, sums in metrics.items():
        yield name, next(sums[kind] for kind in ("sum_raw", "hits", "numerator", "bucket") if kind in sums)
        yield f"{name} denominator", next((sums[kind] for kind in ("places", "denominator") if kind in sums), lists)
