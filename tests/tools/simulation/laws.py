"""What must hold after a run: everything that is stored, shown and sent equals the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

import msgspec

from streammetrics.experiments.experiment_report import SINCE_START
from streammetrics.reports.report import Report
from streammetrics.reports.verdict_lines import verdict_lines
from tests.oracle import Result, pane_lines
from tests.support.worker_bench import Order, assert_stored, in_log_order, letter_places, truth_of
from tests.tools.simulation.schedule import SETTINGS
from tests.tools.simulation.world import World

OWN = {"withheld", "earlier_windows"}
"""Fields of a report that tell of the process that made it."""
Key: TypeAlias = tuple[int, str, str, str]
"""A final pane and its group: start, experiment, variant, segments."""
Values: TypeAlias = tuple[int, int, dict[str, tuple[int, int, int]]]
"""Lists, lists with feedback, and by metric: numerator, denominator, scale."""


def check(world: World) -> None:
    """Check every law. Raises AssertionError."""
    orders = {task: world.engine.order(task, view.control, SETTINGS) for task, view in world.store.committed().items()}
    _check_once(world, orders)
    has_ticks = "idle_ms" in world.schedule.rules
    by_logs_alone = not has_ticks and not world.schedule.ends_by_silence  # then the order in which inputs are read changes nothing
    truth = truth_of(world.logs, in_log_order(world.logs) if by_logs_alone else orders, SETTINGS)
    assert_stored(world.store, world.logs, world.engine, truth, SETTINGS)
    may_differ = has_ticks and world.store.losses > 0  # ticks that were lost may have made other records late
    letters = letter_places(world.letters.kept)
    assert letters >= truth.refused, "a refused record is not among the dead letters"
    # Letters leave before their commit. With ticks, an attempt that was not committed may have found a record late that counts in the next.
    too_early = {("late",)} if has_ticks else set()
    assert may_differ or {letter[:1] for letter in letters - truth.refused} <= too_early, "a record that counts is among the dead letters"
    report = _check_reports(world)
    final = dict(_final(truth.result))
    _check_panes(dict(_in_topic(world)), final, may_differ)
    _check_verdicts(world, report)


def _check_once(world: World, orders: Mapping[int, Order]) -> None:
    """Check that the committed state has processed each record once, in the order of its log."""
    for place in world.logs.of:
        offsets = [order[1] for order in orders[place.partition] if isinstance(order, tuple) and order[0] == place]
        assert offsets == list(range(world.logs.end(place))), f"records of {place} are lost, or count twice: {offsets}"


def _check_reports(world: World) -> Report:
    """Check that every exporter shows what one shows that has just started."""
    *others, newest = [exporter.report for exporter in world.exporters]
    assert newest is not None
    for report in others:
        for field in fields(Report):
            if field.compare and field.name not in OWN:
                assert getattr(report, field.name) == getattr(newest, field.name), f"two exporters show different {field.name}"
    return newest


def _final(result: Result) -> Iterable[tuple[Key, Values]]:
    """Return the final panes of the oracle."""
    for line in pane_lines(result):
        entry: Any = line
        if entry["view"] == "final":
            segments = ",".join(f"{name}={value}" for name, value in sorted(entry["segments"].items()))
            metrics = {
                name: (of["hits"], of["places"], 0) if "hits" in of else (of["sum_raw"], entry["lists"], of["scale_bits"])
                for name, of in entry["metrics"].items()
            }
            key = (entry["pane_start_ms"], entry["experiment"], entry["variant"], segments)
            yield key, (entry["lists"], entry["lists_with_feedback"], metrics)


def _in_topic(world: World) -> Iterable[tuple[Key, Values]]:
    for key, value in world.topic.newest().items():
        if msgspec.json.decode(key)["type"] == "pane":
            pane = msgspec.json.decode(value)
            yield _key(pane), (pane["lists"], pane["lists_with_feedback"], dict(map(_metric, pane["metrics"])))


def _key(row: Mapping[str, Any]) -> Key:
    return row["pane_start_ms"], row["experiment"], row["variant"], row["segments"]


def _metric(row: Mapping[str, Any]) -> tuple[str, tuple[int, int, int]]:
    return f"{row['metric']}@{row['k']}", (int(row["numerator"]), int(row["denominator"]), row["scale_bits"])


def _check_panes(panes: Mapping[Key, Values], wanted: Mapping[Key, Values], may_have_more: bool) -> None:
    """Check the final panes of the topic. `found` may have more metrics than the oracle, and groups that lost their only list."""
    for key, (lists, with_feedback, metrics) in wanted.items():
        assert key in panes, f"{key} is missing"
        of_key = panes[key]
        assert of_key[:2] == (lists, with_feedback), f"lists of {key}"
        assert {name: of_key[2].get(name) for name in metrics} == metrics, f"metrics of {key}"
    more = {key for key, values in panes.items() if values[0]} - wanted.keys()
    assert may_have_more or not more, f"{more} are not final, or have no lists"


def _check_verdicts(world: World, report: Report) -> None:
    """Check the newest verdicts of the topic."""
    lines = verdict_lines((experiment for experiment in report.experiments if experiment.scope == SINCE_START), report.entered_ms)
    wanted = {line.about: line.verdict for line in lines if line.verdict is not None}
    values = [msgspec.json.decode(value) for value in world.topic.newest().values()]
    sent = {_about(record): record["verdict"] for record in values if record["type"] == "verdict"}
    assert {about: sent.get(about) for about in wanted} == wanted, "verdicts in the topic of results"


def _about(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["experiment"], row["scope"], row["variant"]
