"""Tests of the snapshots of experiments that a replay takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streammetrics.config import load
from streammetrics.connectors.files import FileSource
from streammetrics.connectors.simulated import Traffic
from streammetrics.offline.replay.history import Snapshot
from streammetrics.offline.replay.worker import ReplayWorker
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.wiring.engine import build_engine
from tests.support.replays import CLEAN, DAY_MS, NOON_MS, replayed, sent, write


def test_snapshots_do_not_depend_on_the_input_or_on_commits(tmp_path: Path) -> None:
    traffic = Traffic(users=600, seed=4, impressions_per_second=6, lists_per_visit=3, list_gap_ms=20_000)
    path = write(tmp_path / "events.ndjson", sent(traffic, 8_000))
    _, report, _ = replayed(tmp_path, path)
    (day, start) = report["history"]  # type: ignore[misc]
    assert (day["scope"], start["scope"], day["looks"]) == ("day", "start", start["looks"])
    times = [at for at, _ in start["looks"]["kept"]]
    assert len(times) > 4
    assert times == sorted({*times})
    users = [snapshot[1] for _, snapshot in start["looks"]["kept"]]
    assert users == sorted(users)
    assert users[0] < users[-1] <= sum(variant["users"] for variant in report["experiments"][1]["variants"])  # type: ignore[index]
    often = ["--set", "worker.commit_ms=1", "--set", "worker.commit_users_max=100"]
    _, again, _ = replayed(tmp_path, "-", stdin=path.read_bytes(), words=often)
    assert (again["experiments"], again["history"]) == (report["experiments"], report["history"])
    _, begun, _ = replayed(tmp_path, write(tmp_path / "begun.ndjson", sent(traffic, 6_000)))
    assert [users_and_scale(document)[1] for document in (report, begun)] == [users_and_scale(begun)[1]] * 2, "frozen at the first snapshot"
    assert users_and_scale(begun)[0] < users_and_scale(report)[0]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_snapshot_has_exactly_the_lists_before_its_time(tmp_path: Path, jobs: str) -> None:
    traffic = Traffic(users=600, seed=4, impressions_per_second=3)
    path = write(tmp_path / "events.ndjson", sent(traffic, 8_000))
    firsts: dict[str, int] = {}
    events = [json.loads(line) for line in path.read_text().splitlines()]
    counted_until_ms = max(event["ts"] for event in events) - 60_000 + 1  # QUICK has a minute for feedback
    for event in events:
        if event["type"] == "impression":
            firsts[event["user_id"]] = min(event["ts"], firsts.get(event["user_id"], event["ts"]))
    _, report, _ = replayed(tmp_path, path, words=["--jobs", jobs])
    (start,) = [line for line in report["history"] if line["scope"] == "start"]  # type: ignore[attr-defined]
    users_before = {at: sum(first < at for first in firsts.values()) for at, _ in start["looks"]["kept"]}
    assert {at: snapshot[1] for at, snapshot in start["looks"]["kept"]} == users_before
    assert min(users_before.values()) > 0
    assert max(users_before) <= counted_until_ms


def test_the_end_of_a_log_has_the_snapshots_of_one_that_goes_on(tmp_path: Path) -> None:
    """The treatment becomes bad an hour before the end. Its drop is a curve until half an hour before the end: later lists do not count."""

    waits = [f"--set={name}" for name in ("join.gap_ms=1800000", "join.attribution_ms=1800000", "experiments.patience_ms=0")]

    def lines(minutes: int) -> str:
        texts = []
        for number in range(minutes * 20):
            ts, arm = NOON_MS + number * 3_000, ("control", "treatment")[number % 2]
            impression = {"type": "impression", "impression_id": f"r{number}", "user_id": f"u{number}", "ts": ts, "items": ["a", "b", "c"]}
            item = "c" if arm == "treatment" and number >= 60 * 20 else ("a", "b")[number // 2 % 2]
            click = {"type": "feedback", "impression_id": f"r{number}", "user_id": f"u{number}", "ts": ts + 500, "action": "click"}
            texts += [json.dumps({**impression, "experiments": {"ranker": arm}}), json.dumps({**click, "item_id": item})]
        return "\n".join(texts)

    def lifts(minutes: int, *words: str) -> dict[int, float | None]:
        path = tmp_path / "events.ndjson"
        path.write_text(lines(minutes))
        _, report, _ = replayed(tmp_path, path, words=[*waits, *words])
        (start,) = [line for line in report["history"] if line["scope"] == "start"]  # type: ignore[attr-defined]
        return {at: snapshot[2][0][3] for at, snapshot in start["looks"]["kept"] if snapshot[2]}

    points, end_ms = lifts(120), NOON_MS + 120 * 60_000
    begin_ms, counted_ms = end_ms - 60 * 60_000, end_ms - 33 * 60_000  # a snapshot may have some lists after its time
    last = {at: lift for at, lift in points.items() if begin_ms < at <= counted_ms}
    assert last == {at: lift for at, lift in lifts(240).items() if begin_ms < at <= counted_ms}
    assert len(last) >= 10
    assert max(points) <= end_ms - 30 * 60_000, "no list counts after that"
    assert all(later < earlier for earlier, later in zip(list(last.values()), list(last.values())[1:], strict=False))
    assert lifts(120, "--jobs", "2") == points
    assert max(lifts(120, "--no-flush")) <= max(points)


def test_snapshots_belong_to_the_latest_run_of_an_experiment(tmp_path: Path) -> None:
    first, again = (Traffic(users=300, seed=4, impressions_per_second=3, start_ms=NOON_MS + days * DAY_MS) for days in (0, 3))
    words = ["--set", "experiments.idle_days=1"]
    whole = write(tmp_path / "events.ndjson", [*sent(first), *sent(again)])
    parts = [write(tmp_path / name, sent(traffic)) for name, traffic in (("first", first), ("again", again))]
    for files in ([whole], parts):
        _, report, _ = replayed(tmp_path, *files, words=words)
        assert [(trail["scope"], min(days_of(trail))) for trail in report["history"]] == [("day", 3), ("start", 3)]  # type: ignore[attr-defined]


def test_ended_experiments_make_room_in_the_history(tmp_path: Path) -> None:
    def shown(ts: int, *names: str) -> str:
        arms = dict.fromkeys(names, "control")
        return json.dumps(
            {"type": "impression", "impression_id": str(ts), "user_id": f"u{ts}", "ts": ts, "items": ["x"], "experiments": arms}
        )

    early = [f"early{number}" for number in range(40)]
    lines = [shown(NOON_MS, *early[:20]), shown(NOON_MS + 1, *early[20:])]
    lines += [shown(NOON_MS + second * 1_000) for second in range(1, 6_000)]  # as many as are read in several turns
    lines += [shown(NOON_MS + 3 * DAY_MS + second * 1_000, *(["late"] if second == 0 else [])) for second in range(6_000)]
    path = tmp_path / "events.ndjson"
    path.write_text("\n".join(lines))
    _, report, _ = replayed(tmp_path, path, words=["--set", "experiments.idle_days=1", "--set", "events.experiments_max=20"])
    assert [(trail["experiment"], trail["scope"]) for trail in report["history"]] == [("late", "day"), ("late", "start")]  # type: ignore[attr-defined]


def test_snapshots_do_not_depend_on_how_the_inputs_are_read_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = Traffic(users=300, seed=4, impressions_per_second=3, late_rate=0.02, late_ms=400_000)
    topics = ("impressions", "feedback")
    files = [str(write(tmp_path / topic, (event for event in sent(traffic) if event.topic == topic))) for topic in topics]
    settings = load(
        None, {}, {"windows.pane_ms": 10_000, "windows.windows": "1m", "join.gap_ms": 120_000, "join.attribution_ms": 60_000}
    ).settings

    def snapshots(order: list[str], chunk_lines: int) -> list[tuple[int, object, object]]:
        taken: list[Snapshot] = []
        source = FileSource(order, chunk_lines_max=chunk_lines)
        worker = ReplayWorker(settings, build_engine(settings, files), source, None, lambda panes: None)
        worker.read_all(taken.append, lambda stage, done, total: None, flush=True)
        source.close()
        return [(snapshot.enrolled_ms, snapshot.view.rows, snapshot.is_changed) for snapshot in taken]

    expected = snapshots(files, 1_000)
    assert len([sums for _, sums, _ in expected if sums]) > 4
    assert snapshots(files, 7) == expected
    assert snapshots(files[::-1], 400) == expected
    monkeypatch.setattr(Worker, "enrol", lambda worker: worker.drain(flush=False))
    assert snapshots(files, 1_000) == expected, "a snapshot shows what a whole commit shows"


def days_of(trail: dict[str, dict[str, list[tuple[int, object]]]]) -> list[int]:
    """Return the UTC days of the snapshots, counted from the first."""
    return [(at - 1) // DAY_MS - NOON_MS // DAY_MS for at, _ in trail["looks"]["kept"]]


def users_and_scale(report: dict[str, object]) -> tuple[int, float]:
    """Return the users and the scale of the compared variant, since it began."""
    compared = next(experiment for experiment in report["experiments"] if experiment["scope"] == "start")["variants"][1]  # type: ignore[attr-defined]
    return compared["users"], compared["measures"][0]["tau"]


def test_a_replay_without_experiments_has_no_history(tmp_path: Path) -> None:
    path = write(tmp_path / "events.ndjson", sent(CLEAN))
    _, report, _ = replayed(tmp_path, path, words=["--set", "experiments.enabled=false"])
    assert (report["experiments"], report["history"]) == ([], [])
