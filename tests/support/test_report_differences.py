"""Tests of the comparison of a running system with a replay: it finds what differs, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streammetrics.connectors.simulated import Traffic, generate
from tests.support.command_line import called
from tests.support.report_differences import pane_differences, report_differences

START_MS = 60_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replays of the same events, as they are, without feedback, and not to the end."""
    folder = tmp_path_factory.mktemp("differences")
    traffic = Traffic(users=600, seed=3, impressions_per_second=5)
    lines = [sent.value for sent in generate(traffic, None, traffic.start_ms + 600_000)]
    (folder / "events.ndjson").write_bytes(b"".join(line + b"\n" for line in lines))
    (folder / "shown.ndjson").write_bytes(b"".join(line + b"\n" for line in lines if json.loads(line)["type"] == "impression"))
    for name, events, words in (("base", "events", []), ("alone", "shown", []), ("running", "events", ["--no-flush"])):
        outputs = ["--report", folder / f"{name}.json", "--panes", folder / f"{name}.ndjson", "--quiet"]
        short = ["--set", "join.gap_ms=120000", "--set", "join.attribution_ms=120000"]
        assert called("replay", folder / f"{events}.ndjson", *words, *outputs, *short).returncode == 0
    return folder


def report(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def test_equal_sides_have_no_differences(folder: Path) -> None:
    assert report_differences(report(folder, "base"), report(folder, "base")) == []
    assert pane_differences(folder / "base.ndjson", folder / "base.ndjson") == []


def test_every_kind_of_number_is_compared(folder: Path) -> None:
    differences = report_differences(report(folder, "base"), report(folder, "alone"))
    kinds = [("'counters'", "matched"), ("'totals'", "ndcg@10"), ("'totals'", "lists_with_feedback"), ("'experiment'", "ndcg@10")]
    assert [kind for kind in kinds if not any(kind[0] in line and f" {kind[1]}: online " in line for line in differences)] == []
    panes = pane_differences(folder / "base.ndjson", folder / "alone.ndjson")
    assert any(" lists_with_feedback: online " in line for line in panes)
    assert any(" ndcg@10: online " in line for line in panes)
    assert not any(" lists: online " in line for line in panes)


def test_reports_that_end_at_different_times_are_not_equal(folder: Path) -> None:
    (differences,) = report_differences(report(folder, "running"), report(folder, "base"))
    assert differences.startswith("the reports end at different times")
    assert pane_differences(folder / "running.ndjson", folder / "base.ndjson") == []


def record(start: int, lists: int, numerator: int) -> dict[str, Any]:
    """A record of the results topic."""
    metric = {"metric": "item_hit_rate", "k": 5, "numerator": numerator, "denominator": 10, "scale_bits": 0}
    group = {"experiment": "ranker", "variant": "a", "segments": "tv=yes"}
    return {"type": "pane", "pane_start_ms": start * START_MS, **group, "lists": lists, "lists_with_feedback": 1, "metrics": [metric]}


def line(start: int, lists: int, numerator: int) -> dict[str, Any]:
    """The same as a line of `--panes`."""
    sums = {"item_hit_rate@5": {"hits": numerator, "places": 10}}
    return record(start, lists, numerator) | {"type": "pane", "segments": {"tv": "yes"}, "view": "final", "metrics": sums}


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_records_of_a_topic_are_compared_with_lines_over_the_common_span(tmp_path: Path) -> None:
    verdict = {"type": "verdict", "experiment": "ranker"}
    online = written(tmp_path / "online", verdict, record(1, 3, 2), record(2, 3, 2), record(3, 3, 2))
    assert pane_differences(online, written(tmp_path / "same", line(2, 3, 2), line(3, 3, 2), line(4, 9, 9))) == []
    place = "(120000, 'ranker', 'a', 'tv=yes')"
    changed = written(tmp_path / "changed", line(1, 3, 2), line(2, 4, 1), line(3, 3, 2))
    assert pane_differences(online, changed) == [f"{place} lists: online 3, offline 4", f"{place} item_hit_rate@5: online 2, offline 1"]
    gap = written(tmp_path / "gap", line(1, 3, 2), line(3, 3, 2))
    assert pane_differences(online, gap)[0] == f"{place} lists: online 3, offline 0"
    assert pane_differences(online, written(tmp_path / "later", line(9, 1, 1))) == ["the two sides have no pane in common"]
