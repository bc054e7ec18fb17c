"""Tests of `simulate` to files and standard output: reproducible bytes and the effect of each option."""

from __future__ import annotations

import gzip
import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streammetrics.cli.main import main
from streammetrics.cli.process.signals import SIGNALS
from streammetrics.cli.simulate.plan import FILE_START_MS
from streammetrics.events import EventLimits, MalformedEvent, native_decoder
from tests.servers.process import wait_until
from tests.support.command_line import called, started, streammetrics


def simulated(path: Path, *words: str) -> bytes:
    """What `simulate` writes into a file."""
    result = CliRunner().invoke(main, ["simulate", "--out", str(path), *words])
    assert result.exit_code == 0, result.output
    return path.read_bytes()


def events(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


def test_the_same_options_give_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    words = ["--events", "3000", "--seed", "9", "--malformed", "0.02", "--lates", "0.02", "--duplicates", "0.02"]
    here = simulated(tmp_path / "here", *words)
    done = streammetrics("simulate", "--out", tmp_path / "there", *words)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "there").read_bytes() == here
    assert simulated(tmp_path / "other", *words, "--seed", "10") != here


def test_a_single_record_is_singular_in_the_summary() -> None:
    assert streammetrics("simulate", "--out", "-", "--events", "1").stderr.startswith("streammetrics: 1 record, 0:00:00 of event time")


def test_events_go_to_standard_output_and_the_summary_to_standard_error(tmp_path: Path) -> None:
    done = streammetrics("simulate", "--out", "-", "--events", "500")
    assert done.stdout.encode() == simulated(tmp_path / "events", "--events", "500")
    assert done.stderr.startswith("streammetrics: 500 records, 0:00:")
    assert len(done.stderr.splitlines()) == 1


def test_two_files_get_impressions_and_feedback(tmp_path: Path) -> None:
    shown, done = tmp_path / "shown", tmp_path / "done"
    result = CliRunner().invoke(main, ["simulate", "--out", str(shown), "--out", str(done), "--minutes", "2"])
    assert result.exit_code == 0
    together = events(simulated(tmp_path / "both", "--minutes", "2"))
    assert events(shown.read_bytes()) == [event for event in together if event["type"] == "impression"] != []
    assert events(done.read_bytes()) == [event for event in together if event["type"] == "feedback"] != []


def test_exposures_go_to_a_third_file_or_to_the_only_one(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("shown", "done", "exposed")]
    words = [word for path in paths for word in ("--out", str(path))]
    result = CliRunner().invoke(main, ["simulate", *words, "--exposures", "--minutes", "2"])
    assert result.exit_code == 0, result.output
    together = events(simulated(tmp_path / "both", "--minutes", "2", "--exposures"))
    for path, kind in zip(paths, ("impression", "feedback", "exposure"), strict=True):
        assert events(path.read_bytes()) == [event for event in together if event["type"] == kind] != []
    assert not any("experiments" in event for event in together)


def test_minutes_limit_the_event_time_and_events_the_records(tmp_path: Path) -> None:
    times = [event["ts"] for event in events(simulated(tmp_path / "a", "--minutes", "3"))]
    assert min(times) >= FILE_START_MS
    assert FILE_START_MS + 170_000 < max(times) < FILE_START_MS + 180_000
    assert len(events(simulated(tmp_path / "b", "--events", "321"))) == 321


def test_faults_have_the_given_rates(tmp_path: Path) -> None:
    decode = native_decoder(EventLimits())
    content = simulated(tmp_path / "a", "--events", "5000", "--malformed", "0.1", "--duplicates", "0.1", "--disorder-ms", "0")
    malformed = sum(isinstance(event, MalformedEvent) for line in content.split(b"\n")[:-1] for event in decode(line))
    assert 350 < malformed < 550
    repeated = sum(count - 1 for line, count in Counter(content.splitlines()).items() if b'"impression_id"' in line)
    assert repeated > 300


def test_shares_qualities_and_a_regression_shape_the_experiment(tmp_path: Path) -> None:
    words = [
        "--minutes",
        "20",
        "--rate",
        "10",
        "--experiment",
        "color",
        "--variant",
        "red=0.3:1.0",
        "--variant",
        "blue=0.6",
        "--regression",
        "blue:0.3@10m",
    ]
    path = tmp_path / "events"
    found = events(simulated(path, *words))
    lists = [event for event in found if event["type"] == "impression"]
    arms = Counter(event.get("experiments", {}).get("color") for event in lists)
    assert set(arms) == {"red", "blue", None}
    assert 0.25 < arms["red"] / len(lists) < 0.35
    halves: dict[tuple[str, bool], Counter[bool]] = {}
    clicked = {event["impression_id"] for event in found if event["type"] == "feedback" and event["action"] == "click"}
    for event in lists:
        key = (event.get("experiments", {}).get("color", ""), event["ts"] >= FILE_START_MS + 600_000)
        halves.setdefault(key, Counter())[event["impression_id"] in clicked] += 1
    rates = {key: count[True] / count.total() for key, count in halves.items()}
    assert rates["blue", True] < 0.8 * rates["blue", False]
    assert rates["red", True] > 0.8 * rates["red", False]


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_simulation_leaves_no_file(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "events"
    with started("simulate", "--out", path, "--minutes", "100000") as process:
        wait_until(lambda: any(tmp_path.iterdir()), what="it writes")
        assert not path.exists()
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "interrupted" in said
    assert list(tmp_path.iterdir()) == []


def test_in_real_time_records_arrive_on_time_until_ctrl_c() -> None:
    with started("simulate", "--out", "-", "--pace", "real", "--rate", "500") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGINT)
        rest, said = process.stdout.read(), process.stderr.read()  # `communicate` would pass over lines that wait behind the twentieth
    assert process.returncode == 0
    count = len(lines) + len(rest.splitlines())
    assert said.startswith(f"streammetrics: {count} records")
    assert count < 5_000, "as fast as possible there would be tens of thousands"


def test_an_unwritable_file_is_named() -> None:
    done = called("simulate", "--out", "/no/such/folder/events", "--events", "1")
    assert done.returncode == 2
    assert "--out = /no/such/folder/events: cannot be written" in done.stderr


def test_a_file_named_gz_is_gzipped_reproducibly(tmp_path: Path) -> None:
    plain = simulated(tmp_path / "events", "--events", "2000")
    packed = simulated(tmp_path / "events.gz", "--events", "2000")
    assert gzip.decompress(packed) == plain
    assert packed == simulated(tmp_path / "again.ndjson.gz", "--events", "2000")
    assert called("replay", tmp_path / "events.gz").stdout == called("replay", tmp_path / "events").stdout


def test_simulated_events_can_be_replayed_without_refused_events(tmp_path: Path) -> None:
    simulated(tmp_path / "events", "--events", "2000")
    done = called("replay", tmp_path / "events")
    assert done.returncode == 0
    assert "events    2,000" in done.stdout
    assert "refused" not in done.stdout
