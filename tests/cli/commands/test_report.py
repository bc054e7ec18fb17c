"""Tests of `report`: from a file or a pipe, as text and JSON."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streammetrics.cli.output.report_reader import REPORT_ADVICE
from streammetrics.cli.signals import SIGNALS
from streammetrics.connectors.simulated import Regression, Traffic, generate
from streammetrics.connectors.store import StoreNode
from streammetrics.events.model import TS_MAX
from streammetrics.runtime.status import ProcessStatus
from tests.support.command_line import called, is_asleep, started, streammetrics
from tests.support.committed_state import Now, served
from tests.support.gates import gate_answers, report_at
from tests.tools.servers.process import wait_until

JOIN = ["--set", "join.gap_ms=600000", "--set", "join.attribution_ms=600000"]
MANY = ["--set", "metrics.names=ndcg,mrr,hit_rate,item_hit_rate,precision,recall,map,dcg", "--set", "metrics.cutoffs=5,10,20"]
SETTINGS = [*JOIN, *MANY, "--set", "experiments.paging=ndcg@10", "--set", "experiments.patience_ms=0"]
TRAFFIC = Traffic(users=800, seed=3, impressions_per_second=8, regression=Regression("treatment", 0.7))
"""Twenty minutes, so that there are snapshots before the end."""
START_MS = 1_732_183_200_000
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    events, report = folder / "events.ndjson", folder / "report.json"
    events.write_bytes(b"".join(sent.value + b"\n" for sent in generate(TRAFFIC, 20_000)))
    done = called("replay", events, "--report", report, "--quiet", *SETTINGS)
    assert (done.returncode, done.stderr) == (0, "")
    return report


def test_a_report_shows_the_verdict_first_then_the_reason(saved: Path) -> None:
    done = streammetrics("report", saved)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ranker · since it began · up to 2024-11-21 10:")
    assert lines[1].startswith("REGRESSED  treatment: ")
    assert lines[1].endswith("lower ndcg@10 than control; 95 % confidence, safe to check at any time")
    assert "split not checked: no shares configured. To check it, set under" in " ".join(done.stdout.split())
    measures = [line.split()[0] for line in lines if "treatment" in line and "@" in line and not line.startswith("why ")][1:]
    assert measures == ["ndcg@10", "mrr@10", "hit_rate@10", "user_hit_rate@10"]
    assert max(len(line) for line in lines if "[experiments.named." not in line) <= 140
    assert any("shares = { control = 1, treatment = 1 }" in line for line in lines), "a setting is on one line"


def test_characters_that_the_encoding_lacks_are_escaped(saved: Path) -> None:
    utf8, ascii_only = (streammetrics("report", saved, environ={"PYTHONIOENCODING": encoding}) for encoding in ("utf-8", "ascii"))
    assert (ascii_only.returncode, ascii_only.stderr) == (0, "")
    assert ascii_only.stdout.splitlines()[0] == utf8.stdout.splitlines()[0].replace("·", "\\xb7")


def test_all_shows_every_measure(saved: Path) -> None:
    few, every = (called("report", saved, *words).stdout for words in ((), ("--all",)))
    assert "23 more measures: use --all" in few
    assert "use --all" not in every
    assert every.count("@") > 25


def test_a_regression_is_explained_by_rank_and_time(saved: Path) -> None:
    """The simulated traffic has the segment of the default configuration or none, and the drop is there from the start."""
    (ndcg, *_) = json.loads(saved.read_bytes())["explanations"]
    assert (ndcg["variant"], ndcg["metric"], ndcg["segments"]) == ("treatment", "ndcg", [])
    assert len(ndcg["summary"]) == 1
    assert re.fullmatch(r"ranks? .* of the drop in dcg@10.*", ndcg["summary"][0])
    few, every = (" ".join(called("report", saved, *words).stdout.split()) for words in ((), ("--all",)))
    assert "why treatment (ndcg@10; exploratory, lists from 2024-11-21 10:00 UTC to 2024-11-21 10:" in few
    assert "; ".join(ndcg["summary"]) in few
    assert "contributions by rank" not in few
    assert "contributions by rank, treatment against control, dcg@10 (exploratory)" in every


def test_json_output_has_the_experiments_of_the_report(saved: Path) -> None:
    whole = json.loads(saved.read_bytes())
    done = called("report", "-", "--format", "json", stdin=saved.read_bytes())
    document = json.loads(done.stdout)
    assert (document["experiments"], document["history"]) != ([], [])
    assert {experiment["scope"] for experiment in document["experiments"]} == {"start", "day"}
    assert sorted(document["experiments"], key=str) == sorted(whole["experiments"], key=str)
    assert document["history"] == whole["history"]
    assert document["explanations"] == whole["explanations"] != []


def test_unreadable_files_are_reported(saved: Path, tmp_path: Path) -> None:
    missing = called("report", tmp_path / "none.json")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "none.json: cannot be read: No such file" in missing.stderr
    broken = called("report", "-", stdin=b"{")
    assert (broken.returncode, "standard input is not a report: it is not JSON" in broken.stderr) == (1, True)
    other_text = called("report", "-", stdin=b'{"experiments":"\xff"}')
    assert (other_text.returncode, other_text.stderr.count("it is not JSON (byte 0xff is no UTF-8 text)")) == (1, 1)
    events = called("report", "-", stdin=b'{"type":"impression"}\n{"type":"feedback"}\n')
    assert (events.returncode, "give a file from `replay --report` or from /api/report" in events.stderr) == (1, True)
    other = called("report", "-", stdin=b'{"windows":[]}')
    assert (other.returncode, "not a report with experiments" in other.stderr) == (1, True)
    unknown = called("report", saved, "--experiment", "rankr")
    assert (unknown.returncode, "no experiment 'rankr'" in unknown.stderr) == (1, True)


def test_the_report_of_an_exporter_has_its_age_and_says_that_no_worker_commits() -> None:
    clock = Now(0.0)
    status = ProcessStatus()
    answers = gate_answers(status=status, clock=clock, loop=False)
    answers.show(report_at(time.time_ns() // 1_000_000, age_ms=600_000))
    with served(answers) as url:
        clock.seconds += 20
        first = called("report", "--url", url).stdout.splitlines()[0]
        clock.seconds += 40
        later = called("report", "--url", url).stdout.splitlines()[0]
        status.store_nodes = (StoreNode("r:6379", refusal="its memory is full (maxmemory)"),)
        refused = called("report", "--url", url).stdout.splitlines()[0]
    assert re.fullmatch(rf"{url}: the numbers end [\d.]+ (min|h) ago; the last commit was 20 s ago", first), first
    assert later.endswith("; no worker has committed anything for 60 s: no worker runs, or nothing is sent")
    assert refused.endswith("; no worker has committed anything for 60 s: Redis at r:6379 refuses writes: its memory is full (maxmemory)")


@pytest.mark.parametrize("words", [("report",), ("gate", "ranker"), ("plan",)])
def test_an_address_in_place_of_a_file_points_to_its_option(words: tuple[str, ...]) -> None:
    done = called(*words, "http://exporter:9464")
    assert (done.returncode, done.stdout) == (2, "")
    assert "http://exporter:9464 is an address; use --url http://exporter:9464" in " ".join(done.stderr.split())


@pytest.mark.parametrize("number", SIGNALS)
def test_an_interrupted_report_exits_with_1(number: signal.Signals, tmp_path: Path) -> None:
    pipe = tmp_path / "report.json"
    os.mkfifo(pipe)
    with started("report", pipe) as process, pipe.open("wb"):  # opens when the report is read
        wait_until(lambda: is_asleep(process), what="the report is waited for")
        process.send_signal(number)
        assert process.wait(30) == 1


@pytest.mark.parametrize("before", ["", '{"experiments":'])
def test_json_that_is_nested_too_deeply_is_rejected(before: str, tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text(before + "[" * 200_000)
    done = called("report", path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"streammetrics: deep.json is not a report: it is not JSON (it is nested too deeply); {REPORT_ADVICE}\n"


def test_an_unavailable_store_is_named(tmp_path: Path) -> None:
    done = called("report", "--set", "redis.url=redis://127.0.0.1:1/0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Redis at 127.0.0.1:1" in done.stderr


FORGED = "new\u202e %4 yb retteb\u2066\u200f"
SEEN = "new\ufffd %4 yb retteb\ufffd\ufffd"


def later_lists(ts: int) -> Iterator[bytes]:
    """Lists without an experiment, an hour later: the lists before have had all their time for feedback."""
    for number in range(20):
        impression = {
            "type": "impression",
            "impression_id": f"later{number}",
            "user_id": f"later{number}",
            "ts": ts + HOUR_MS + number,
            "items": ["a"],
        }
        yield json.dumps(impression).encode()


def lists_of_forgers() -> Iterator[bytes]:
    for user in range(6):
        impression = {"type": "impression", "impression_id": f"i{user}", "user_id": f"u{user}", "ts": START_MS, "items": ["a"]}
        yield json.dumps(impression | {"experiments": {FORGED: ("control", FORGED)[user % 2]}}).encode()
        yield json.dumps({"type": "feedback", "user_id": f"u{user}", "ts": START_MS + 1, "item_id": "a", "action": "click"}).encode()
    yield from later_lists(START_MS)


def test_names_with_direction_controls_are_sanitized_on_the_terminal(tmp_path: Path) -> None:
    report = replayed(tmp_path, lists_of_forgers())
    assert {variant["variant"] for variant in whole(report)["variants"]} == {"control", FORGED}  # files hold names as they came
    output = called("report", report, "--all").stdout
    assert output.startswith(f"{SEEN} · since it began · ")
    assert f"{SEEN} has 3" in output
    unknown = called("report", report, "--experiment", "x").stderr
    assert SEEN in unknown
    assert not set(output + unknown) & set(FORGED) - set(SEEN)


def test_control_characters_in_a_report_are_sanitized(saved: Path) -> None:
    steering = "\x1b[2J\u202e"
    plain = json.loads(saved.read_bytes())
    for experiment in plain["experiments"]:
        experiment["verdict"]["reason"] += steering
        for variant in experiment["variants"]:
            variant["role"] += steering
            for measure in variant["measures"]:
                measure["metric"] += steering
    done = called("report", "-", "--all", stdin=json.dumps(plain).encode())
    assert "REGRESSED  treatment: " in done.stdout
    assert not set(done.stdout) & set(steering[:1] + steering[-1:])


def replayed(folder: Path, events: Iterable[bytes], *words: str) -> Path:
    """Replay these records, and return the path of the report."""
    (folder / "events.ndjson").write_bytes(b"".join(event + b"\n" for event in events))
    done = called("replay", folder / "events.ndjson", "--report", folder / "report.json", "--quiet", *SETTINGS, *words)
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "report.json"


def whole(report: Path) -> dict[str, Any]:
    """Return the only experiment of a report, since it began."""
    (whole_run,) = (experiment for experiment in json.loads(report.read_bytes())["experiments"] if experiment["scope"] == "start")
    assert isinstance(whole_run, dict)
    return whole_run


@pytest.mark.parametrize(("quality", "word"), [(0.5, "regressed"), (1.0, "inconclusive")])
def test_interleaved_lists_show_the_preferred_ranker(quality: float, word: str, tmp_path: Path) -> None:
    variants = ("--variant", "control=0.5", "--variant", f"treatment=0.5:{quality}")
    size = ("--minutes", "16", "--users", "300", "--rate", "4", "--seed", "3")
    done = called("simulate", "--out", "-", "--interleaved", *variants, *size)
    assert done.returncode == 0
    report = replayed(tmp_path, done.stdout.encode().splitlines())
    experiment = whole(report)
    (preference,) = experiment["preferences"]
    assert (preference["team"], preference["against"], preference["verdict"]["word"]) == ("treatment", "control", word)
    assert (preference["credit_upper"] < 0) is (word == "regressed")
    (arm,) = experiment["variants"]
    assert (arm["variant"], arm["role"], arm["lists"]) == ("interleaved", "interleaved", preference["lists"])
    output = called("report", report).stdout
    assert f"{preference['credit']:+.4f}" in output
    assert "(decides)" not in output
    assert output.startswith("ranker · since it began · ")
    assert f"{word.upper()}  {preference['verdict']['reason'][:60]}" in output


def users_with_click_rates() -> Iterator[bytes]:
    """Four lists per user, two of them on the day before the experiment. Users differ in how often they click."""
    chance = Random(5)
    turns = [(START_MS + HOUR_MS * (turn - 2) * 6, user) for turn in range(4) for user in range(300)]
    click_rates = [chance.random() ** 2 for _ in range(300)]
    for ts, user in turns:
        impression = {"type": "impression", "impression_id": f"{user}-{ts}", "user_id": f"u{user}", "ts": ts, "items": list("abcdef")}
        if ts >= START_MS:
            impression["experiments"] = {"ranker": ("control", "treatment")[user % 2]}
        yield json.dumps(impression).encode()
        for item in "abcdef":
            if chance.random() < click_rates[user]:
                click = {"type": "feedback", "user_id": f"u{user}", "ts": ts + 1_000, "item_id": item, "action": "click"}
                yield json.dumps(click).encode()
    yield from later_lists(turns[-1][0])


def test_lists_before_the_experiment_reduce_the_variance(tmp_path: Path) -> None:
    config = tmp_path / "streammetrics.toml"
    config.write_text("[experiments.named.ranker]\nstart = 2024-11-21T10:00:00Z\ncuped_days = 7\n")
    experiment = whole(replayed(tmp_path, users_with_click_rates(), "--config", str(config), *MANY))
    (precision,) = (measure for measure in experiment["variants"][1]["measures"] if (measure["metric"], measure["k"]) == ("precision", 10))
    reduced = precision["reduced"]
    assert reduced["users_with_earlier"] == sum(variant["users"] for variant in experiment["variants"]) == 300
    assert reduced["variance_reduction"] > 0.4
    assert reduced["lift_upper"] - reduced["lift_lower"] < 0.85 * (precision["lift_upper"] - precision["lift_lower"])
    output = called("report", tmp_path / "report.json", "--all").stdout
    assert f"{100 * reduced['variance_reduction']:.1f} %" in output


@pytest.mark.parametrize(
    ("ts", "words", "text"), [(0, ("--no-flush",), "up to 1969-12-31 "), (TS_MAX, (), "up to 10000-01-01 00:00 UTC")], ids=["first", "last"]
)
def test_the_earliest_and_latest_event_times_are_shown(ts: int, words: tuple[str, ...], text: str, tmp_path: Path) -> None:
    impression = {"type": "impression", "user_id": "u", "items": ["a"], "experiments": {"ranker": "control"}}
    events, report = tmp_path / "events.ndjson", tmp_path / "report.json"
    events.write_text(json.dumps(impression | {"impression_id": "i", "ts": ts}), encoding="utf-8")
    assert called("replay", events, "--report", report, "--quiet", *SETTINGS, *words).returncode == 0
    done = called("report", report)
    assert (done.returncode, done.stderr) == (0, "")
    assert text in done.stdout
