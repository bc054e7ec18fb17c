"""The passes of a replay on Spark write the report and the panes of `replay`, whatever the shards, slices and blocks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streammetrics.config import Settings, load
from streammetrics.offline.replay.files import ReplayOutputs, replay
from tests.offline.spark.local_passes import passed
from tests.offline.spark.samples import GIVEN, by_topic, differing, wrong_clocks
from tests.support.replays import CLEAN, FAULTY, sent, write

MANY = replace(FAULTY, users=600, impressions_per_second=20, late_ms=90_000)


def settings_of(**given: Any) -> Settings:
    return load(None, {}, {**GIVEN, **{name.replace("__", "."): value for name, value in given.items()}}).settings


def in_one_process(settings: Settings, files: list[Path], folder: Path) -> tuple[dict[str, Any], bytes]:
    report, panes = folder / "whole", folder / "whole-panes"
    replay(settings, [str(file) for file in files], ReplayOutputs(report=report, panes=panes), order="log")
    return json.loads(report.read_bytes()), panes.read_bytes()


@pytest.mark.parametrize(("shards", "size", "blocks"), [(1, 1_000, 1), (3, 50, 4), (5, 7, 2)])
def test_any_shards_slices_and_blocks_write_what_one_process_writes(shards: int, size: int, blocks: int, tmp_path: Path) -> None:
    settings, files = settings_of(join__lateness_ms=20_000), by_topic(sent(MANY, 6_000), tmp_path)
    whole, panes = in_one_process(settings, files, tmp_path)
    report, own_panes = passed(settings, files, tmp_path, shards=shards, size=size, blocks=blocks)
    assert whole["history"]
    assert whole["counters"]["late"]
    assert "at the end of the input do not count" in json.dumps(whole["experiments"]), "no list is open at the end"
    assert differing(report, whole) == []
    assert own_panes == panes


@pytest.mark.parametrize("seed", range(6))
def test_wrong_clocks_move_the_time_of_an_input_as_in_one_process(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    given = {
        "join__support_users": random.choice([1, 2, 5]),
        "join__support_jump_ms": random.choice([5_000, 65_000]),
        "join__lateness_ms": random.choice([0, 60_000]),
    }
    records = wrong_clocks(sent(replace(FAULTY, seed=seed), 2_500), random.choice([0.002, 0.05, 0.4]), seed)
    settings, files = settings_of(**given), by_topic(records, tmp_path)
    files.append(write(tmp_path / "all.ndjson", sent(replace(CLEAN, seed=seed + 100), 300)))
    files.append(write(tmp_path / "none.ndjson", []))
    whole, panes = in_one_process(settings, sorted(files), tmp_path)
    shape = {"shards": random.choice([1, 2, 4]), "size": random.choice([1, 20, 300]), "blocks": random.choice([1, 3])}
    report, own_panes = passed(settings, sorted(files), tmp_path, **shape)
    assert (differing(report, whole), given, shape) == ([], given, shape)
    assert own_panes == panes


@pytest.mark.parametrize("content", [b"", b"\n \n", b"no event\n"])
def test_files_without_events(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(content)
    whole, _ = in_one_process(settings_of(), [file], tmp_path)
    assert differing(passed(settings_of(), [file], tmp_path, shards=2, size=10, blocks=2)[0], whole) == []
