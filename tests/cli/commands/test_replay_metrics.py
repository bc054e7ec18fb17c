"""`replay` computes every metric under every definition as the library does on the same lists."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streammetrics import Spec, evaluate, from_grades
from streammetrics.metrics import METRIC_NAMES
from tests.support.command_line import called

GRADES = {"click": 1, "save": 2, "buy": 3}
LISTS = [[0, 0, 3, 0, 1], [2, 0], [], [0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 3, 2, 1], [0, 0, 0, 0, 0, 2]]


def events() -> str:
    lines = []
    for number, grades in enumerate(LISTS):
        base = {"user_id": f"u{number}", "impression_id": f"l{number}"}
        items = [f"i{at}" for at in range(len(grades))]
        lines.append({"type": "impression", **base, "ts": 1_700_000_000_000 + number, "items": items})
        for at, grade in enumerate(grades):
            if action := next((name for name, graded in GRADES.items() if graded == grade), ""):
                lines.append({"type": "feedback", **base, "item_id": items[at], "action": action, "ts": 1_700_000_000_100 + number})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        ((), Spec()),
        (("metrics.gain=0,1,5,20", "metrics.discount=1,1.5,4"), Spec(gain=(0, 1, 5, 20), discount=(1, 1.5, 4))),
        (
            ("metrics.gain=binary", "metrics.relevant_grade=2", "metrics.rbp_persistence=0.95"),
            Spec("binary", relevance_threshold=2, rbp_persistence=0.95),
        ),
        (("metrics.discount=max(1,log2(i))", "metrics.err_grade_max=3"), Spec(discount="max(1,log2(i))", err_grade_max=3)),
    ],
)
def test_a_replay_gives_the_numbers_of_evaluate(tmp_path: Path, words: tuple[str, ...], spec: Spec) -> None:
    names = ["r_precision", *(f"{name}@{k}" for name in METRIC_NAMES if name != "r_precision" for k in (2, 5))]
    path, report = tmp_path / "events.ndjson", tmp_path / "report.json"
    path.write_text(events())
    settings = [f"metrics.names={','.join(METRIC_NAMES)}", "metrics.cutoffs=2,5", "join.grades=click=1, save=2, buy=3", *words]
    done = called("replay", path, "--report", report, "--quiet", *(word for setting in settings for word in ("--set", setting)))
    assert (done.returncode, done.stderr) == (0, "")
    (total,) = json.loads(report.read_text())["totals"]
    expected = evaluate(from_grades(LISTS), names, spec).means
    assert {name: total["values"][name] for name in names} == expected
    assert set(total["values"]) == set(names)
