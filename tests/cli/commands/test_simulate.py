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
from streammetrics.cli.signals import SIGNALS
from streammetrics.cli.traffic_plan import FILE_START_MS
from tests.support.command_line import called, started, streammetrics
from tests.tools.servers.process import wait_until


def simulated(path: Path, *words: str) -> bytes:
    """What `simulate` writes into a file."""
    result = CliRunner().invoke(main, ["simulate", "--out", str(path), *words])
    assert result.exit_code == 0, result.output
    return path.read_bytes()


def events(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


def test_the_same_options_give_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    words = ["--minutes", "2", "--seed", "9"]
    here = simulated(tmp_path / "here", *words)
    done = streammetrics("simulate", "--out", tmp_path / "there", *words)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "there").read_bytes() == here
    assert simulated(tmp_path / "other", *words, "--seed", "10") != here


def test_events_go_to_standard_output_and_the_summary_to_standard_error(tmp_path: Path) -> None:
    done = streammetrics("simulate", "--out", "-", "--minutes", "0.5")
    assert done.stdout.encode() == simulated(tmp_path / "events", "--minutes", "0.5")
    assert done.stderr.startswith(f"streammetrics: {len(done.stdout.splitlines())} records, 0:00:29 of event time")
    assert len(done.stderr.splitlines()) == 1


def test_two_files_get_impressions_and_feedback(tmp_path: Path) -> None:
    printed, done = tmp_path / "shown", tmp_path / "done"
    result = CliRunner().invoke(main, ["simulate", "--out", str(printed), "--out", str(done), "--minutes", "2"])
    assert result.exit_code == 0
    together = events(simulated(tmp_path / "both", "--minutes", "2"))
    assert events(printed.read_bytes()) == [event for event in together if event["type"] == "impression"] != []
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


def test_minutes_limit_the_event_time(tmp_path: Path) -> None:
    times = [event["ts"] for event in events(simulated(tmp_path / "a", "--minutes", "3"))]
    assert min(times) >= FILE_START_MS
    assert FILE_START_MS + 170_000 < max(times) < FILE_START_MS + 180_000


def test_events_begin_at_the_given_time(tmp_path: Path) -> None:
    times = [event["ts"] for event in events(simulated(tmp_path / "a", "--minutes", "1", "--start", "2001-09-09T02:46:40+01:00"))]
    assert 1_000_000_000_000 <= min(times) < max(times) < 1_000_000_060_000


def test_shares_and_qualities_shape_the_experiment(tmp_path: Path) -> None:
    variants = ("--variant", "control=0.3:1.0", "--variant", "treatment=0.6:0.3")
    written_events = events(simulated(tmp_path / "events", "--minutes", "20", "--rate", "10", *variants))
    lists = [event for event in written_events if event["type"] == "impression"]
    arms = Counter(event.get("experiments", {}).get("ranker") for event in lists)
    assert set(arms) == {"control", "treatment", None}
    assert 0.25 < arms["control"] / len(lists) < 0.35
    clicked = {event["impression_id"] for event in written_events if event["type"] == "feedback" and event["action"] == "click"}
    clicks = Counter(event["experiments"]["ranker"] for event in lists if event["impression_id"] in clicked and event.get("experiments"))
    assert clicks["treatment"] / arms["treatment"] < 0.8 * clicks["control"] / arms["control"]


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_simulation_leaves_no_file(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "events"
    with started("simulate", "--out", path, "--minutes", "100000") as process:
        wait_until(lambda: any(tmp_path.iterdir()), what="it writes")
        assert not path.exists()
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "interrupted" in said
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_file_is_named() -> None:
    done = called("simulate", "--out", "/no/such/folder/events")
    assert done.returncode == 2
    assert "--out = /no/such/folder/events: cannot be written" in done.stderr


def test_a_file_named_gz_is_gzipped_reproducibly(tmp_path: Path) -> None:
    plain = simulated(tmp_path / "events", "--minutes", "1")
    packed = simulated(tmp_path / "events.gz", "--minutes", "1")
    assert gzip.decompress(packed) == plain
    assert packed == simulated(tmp_path / "again.ndjson.gz", "--minutes", "1")
    assert called("replay", tmp_path / "events.gz").stdout == called("replay", tmp_path / "events").stdout


def test_simulated_events_can_be_replayed_without_refused_events(tmp_path: Path) -> None:
    content = simulated(tmp_path / "events", "--minutes", "1")
    done = called("replay", tmp_path / "events")
    assert done.returncode == 0
    assert f"events    {len(content.splitlines()):,}" in done.stdout
    assert "refused" not in done.stdout
