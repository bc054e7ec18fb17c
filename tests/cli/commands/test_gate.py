"""Tests of `gate`: its answers and exit codes, from a file and from an exporter, and that no failure has the exit code of `fail`."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streammetrics.cli.output.gate_lines import TOGETHER, answer_lines, summary_markdown
from streammetrics.config import PasswordHash, hash_password
from streammetrics.errors import StreammetricsError
from streammetrics.experiments import ExperimentReport
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.http.auth import Login
from streammetrics.exporters.http.connections import HttpRules
from streammetrics.exporters.http.server import HttpServer
from streammetrics.reports.history import History
from streammetrics.reports.published import plain, published
from streammetrics.reports.verdict_lines import answer_gate
from tests.support.command_line import COMMAND, called, environment, started, streammetrics
from tests.support.committed_state import START_MS, answering, served, two_variants
from tests.support.experiment_samples import experiment
from tests.support.gates import MINUTE_MS, failing, gate_answers, passing, report_at, shown_answers, waiting
from tests.tools.servers.certificates import Authority
from tests.tools.servers.process import free_port


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def saved(path: Path, *, age_ms: int = 0, **changed: Any) -> Path:
    """Write a report with the experiments good, bad and young, as /api/report gives it."""
    report = published(report_at(now_ms(), age_ms=age_ms), two_variants().engine.layout, History())
    path.write_text(json.dumps(plain(report) | changed))
    return path


def outcome(*words: str | Path) -> tuple[int, Any]:
    done = called("gate", *words, "--json")
    return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with served(shown_answers()) as url:
        yield url


@pytest.mark.parametrize(("name", "code", "word"), [("good", 0, "pass"), ("bad", 1, "fail"), ("young", 3, "wait")])
def test_file_and_exporter_give_the_same_answer(tmp_path: Path, base: str, name: str, code: int, word: str) -> None:
    of_file, of_exporter = outcome(name, saved(tmp_path / "report.json")), outcome(name, "--url", base)
    assert (of_file[0], of_file[1]["gate"]) == (code, word) == (of_exporter[0], of_exporter[1]["gate"])
    for changing in ("answered_ms", "up_to_ms", "warnings"):
        del of_file[1][changing], of_exporter[1][changing]
    for treatment in (*of_file[1]["treatments"], *of_exporter[1]["treatments"]):
        del treatment["up_to_ms"]
    assert of_file[1] == of_exporter[1]


def test_the_begin_of_the_running_step_is_sent_and_shown() -> None:
    asked: list[int] = []

    def since(name: str, scope: str, since_ms: int) -> ExperimentReport:
        asked.append(since_ms)
        return replace(failing(name), step_ms=since_ms)

    answers = gate_answers()
    answers.show(replace(report_at(now_ms()), since=since))
    with served(answers) as base:
        done = called("gate", "good", "--url", base, "--since", "2024-11-21T10:00Z")
        before = now_ms()
        called("gate", "good", "--url", base, "--since", "90m")
    assert (done.returncode, asked[0]) == (1, 1_732_183_200_000)
    assert done.stdout.splitlines()[0].endswith(" · lists of the running step count from 2024-11-21 10:00 UTC on")
    assert before - 90 * MINUTE_MS <= asked[1] <= now_ms() - 90 * MINUTE_MS


def test_the_text_has_the_decision_the_reason_and_the_numbers(base: str) -> None:
    lines = called("gate", "bad", "--url", base).stdout.splitlines()
    assert re.fullmatch(r"bad · since it began · up to 20[\d-]+ [\d:]+ UTC, \d+ min ago", lines[0]), lines[0]
    assert lines[1].startswith("FAIL  treatment: ")
    assert "lower ndcg@10 than control; 95 % confidence, safe to check at any time" in lines[1]
    (row,) = [line.split() for line in lines[2:] if "regressed" in line]
    assert row[:4] == ["treatment", "fail", "2,000", "2,000"]
    assert row[-1] == "regressed"
    assert "needed: at least 5 more users in treatment" in called("gate", "young", "--url", base).stdout


@pytest.mark.parametrize(("means", "count"), [({"control": 0.5, "a": 0.5}, 0), ({"control": 0.5, "a": 0.5, "b": 0.4}, 1)])
def test_several_intervals_are_told_apart_from_the_decision(means: dict[str, float], count: int) -> None:
    lines = [*answer_lines(answer_gate(experiment(means, users=9_000), up_to_ms=START_MS, answered_ms=START_MS))]
    assert [str(line) for line in lines].count(TOGETHER) == count


def test_the_summary_is_added_as_markdown_in_which_names_are_text(tmp_path: Path, base: str) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    assert called("gate", "bad", "--url", base, "--summary", path).returncode == 1
    before, title, _, reason, _, head, *_ = path.read_text().splitlines()
    assert (before, title) == ("before", "### ❌ bad: fail")
    assert reason.startswith("treatment: ")
    assert head.startswith("| treatment | gate | users |")
    assert "| treatment | fail | 2,000 | 2,000 | ndcg@10 |" in path.read_text()
    assert summary_markdown("<b>|x", StreammetricsError("no *answer*")).splitlines() == [r"### ⏳ \<b\>\|x: wait", "", r"no \*answer\*"]


def test_a_summary_that_cannot_be_written_is_said_before_the_question(tmp_path: Path) -> None:
    done = called("gate", "bad", "--url", "http://127.0.0.1:1", "--summary", tmp_path / "none" / "summary.md")
    assert done.returncode == 2
    assert "--summary" in done.stderr
    assert "No such file or directory" in done.stderr


def test_standard_input_can_be_the_report(tmp_path: Path) -> None:
    content = saved(tmp_path / "report.json").read_bytes()
    assert called("gate", "good", "-", stdin=content).returncode == 0


def test_an_old_file_never_passes(tmp_path: Path) -> None:
    code, document = outcome("good", saved(tmp_path / "report.json", age_ms=10 * MINUTE_MS))
    assert (code, document["gate"]) == (3, "wait")
    assert "the watermark is 10 min behind the clock" in document["reason"]
    assert outcome("bad", tmp_path / "report.json")[0] == 1
    patient = ["--set", "exporter.gate_stale_ms=3600000"]
    assert outcome("good", tmp_path / "report.json", *patient)[0] == 0


def test_a_replay_that_has_ended_can_pass(tmp_path: Path) -> None:
    path = saved(tmp_path / "report.json", ended=True, watermark_ms=None, experiments_entered_ms=None)
    assert outcome("good", path)[0] == 0


@pytest.mark.parametrize("changed", [{"tasks": 3}, {"watermark_ms": None}])
def test_an_incomplete_file_never_passes(tmp_path: Path, changed: dict[str, Any]) -> None:
    assert outcome("good", saved(tmp_path / "report.json", **changed))[0] == 3


def test_an_unknown_experiment_waits_and_lists_those_that_were_seen(tmp_path: Path, base: str) -> None:
    for words in ([saved(tmp_path / "report.json")], ["--url", base]):
        code, document = outcome("rank", *words)
        assert (code, document["gate"]) == (3, "wait")
        assert document["reason"] == "no experiment 'rank' has final lists yet; experiments with final lists: bad, good, young"
    assert "treatments: treatment" in outcome("good", "--url", base, "--variant", "b")[1]["reason"]


@pytest.mark.parametrize(
    ("content", "words"),
    [("[]", "not a report"), ("{", "not JSON"), ('{"experiments": []}', "not a whole report"), ('{"experiments": 3}', "damaged")],
)
def test_a_file_that_is_no_report_is_no_decision(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    done = called("gate", "good", path)
    assert (done.returncode, words in done.stdout, done.stdout.startswith("WAIT  ")) == (3, True, True)


def test_an_exporter_out_of_reach_is_no_decision() -> None:
    code, document = outcome("good", "--url", f"http://127.0.0.1:{free_port()}")
    assert (code, document["gate"]) == (3, "wait")
    assert document["reason"].endswith("Connection refused")


def test_a_store_out_of_reach_is_no_decision() -> None:
    code, document = outcome("good", "--set", f"redis.url=redis://127.0.0.1:{free_port()}/0")
    assert (code, "check that Redis runs" in document["reason"]) == (3, True)


def test_a_server_that_is_no_exporter_is_no_decision(base: str) -> None:
    assert "it has no such path" in outcome("good", "--url", base + "/metrics")[1]["reason"]


def test_an_answer_from_a_cache_never_passes() -> None:
    an_hour_ago = now_ms() - 60 * MINUTE_MS
    answers = gate_answers(an_hour_ago)
    answers.show(report_at(an_hour_ago))
    with served(answers) as url:
        code, document = outcome("good", "--url", url)
    assert (code, document["gate"]) == (3, "wait")
    assert "60 min apart" in document["reason"]


def test_wrong_usage_is_2(tmp_path: Path) -> None:
    for words in (
        ["good", "--deadline", "5m"],
        ["good", "--watch", "--deadline", "soon"],
        ["good", "report.json", "--url", "http://x"],
        ["good", "-", "--watch"],
        ["good", "report.json", "--since", "5m"],
        ["good", "--url", "http://x", "--since", "noon"],
        ["good", "--url", "ftp://x"],
        ["good", "--url", "http://user:secret@x"],
        ["good", tmp_path / "none.json"],
        ["good", "--set", "client.password=secret"],
        [],
    ):
        done = called("gate", *words)
        assert (done.returncode, done.stdout, "secret" in done.stderr) == (2, "", False), words


def test_a_login_and_an_authority_are_used(tmp_path: Path) -> None:
    authority, password = Authority(tmp_path / "ca"), "correct horse ⚡"
    identity = authority.server()
    rules = HttpRules(ssl_certfile=str(identity.certfile), ssl_keyfile=str(identity.keyfile))
    login = Login({"ci": PasswordHash.parse(hash_password(password)).matches})
    secret = tmp_path / "secret"
    secret.write_text(password)
    with answering(HttpServer(shown_answers(), "127.0.0.1", 0, rules, login)) as server:
        words = ["gate", "good", "--url", server.url, "--set", "client.username=ci", "--set", f"client.ssl_cafile={authority.cafile}"]
        assert called(*words, environ={"STREAMMETRICS_CLIENT_PASSWORD_FILE": str(secret)}).returncode == 0
        report = called("report", *words[2:], environ={"STREAMMETRICS_CLIENT_PASSWORD": password})
        assert (report.returncode, "\nbad · since it began" in report.stdout) == (0, True)
        wrong = called(*words, environ={"STREAMMETRICS_CLIENT_PASSWORD": "wrong"})
        assert (wrong.returncode, "refused the login" in wrong.stdout) == (3, True)
        unknown = called("gate", "good", "--url", server.url)
        assert (unknown.returncode, "its certificate is not trusted" in unknown.stdout) == (3, True)


@contextmanager
def watching(url: str) -> Iterator[subprocess.Popen[str]]:
    with started("gate", "rollout", "--url", url, "--watch", "--every", "0.1") as process:
        yield process
        process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


@contextmanager
def rollout(answers: HttpAnswers) -> Iterator[str]:
    answers.show(report_at(now_ms(), waiting("rollout")))
    with served(answers) as url:
        yield url


@pytest.mark.parametrize(("report", "code"), [(passing, 0), (failing, 1)])
def test_watching_ends_with_the_decision(report: Any, code: int) -> None:
    answers = gate_answers()
    with rollout(answers) as url, watching(url) as process:
        assert first_line(process).startswith("waiting · 205 users so far · treatment: each arm needs at least 100 users")
        answers.show(report_at(now_ms(), report("rollout")))
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (code, "")
    assert out.splitlines()[1].startswith("PASS" if code == 0 else "FAIL")


def test_watching_survives_an_experiment_that_is_not_there_yet_and_an_outage() -> None:
    port = free_port()
    with watching(f"http://127.0.0.1:{port}") as process:
        assert "Connection refused" in first_line(process)
        answers = gate_answers()
        answers.show(report_at(now_ms(), passing("other")))
        with answering(HttpServer(answers, "127.0.0.1", port)):
            assert "experiments with final lists: other" in first_line(process)
            answers.show(report_at(now_ms(), passing("rollout")))
            out, _ = process.communicate(timeout=120)
    assert (process.returncode, "PASS" in out) == (0, True)


def test_watching_ends_at_the_deadline_without_a_decision() -> None:
    with rollout(gate_answers()) as url:
        done = streammetrics("gate", "rollout", "--url", url, "--watch", "--every", "0.1", "--deadline", "300ms")
    assert (done.returncode, "WAIT  treatment: each arm needs" in done.stdout) == (3, True)


def test_an_interrupted_watch_is_no_decision() -> None:
    with rollout(gate_answers()) as url, watching(url) as process:
        first_line(process)
        process.terminate()
        _, err = process.communicate(timeout=120)
    assert (process.returncode, "interrupted" in err) == (3, True)


def test_a_full_disk_is_no_decision(base: str) -> None:
    words = ["gate", "bad", "--url", base]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, *words], stdout=full, stderr=subprocess.PIPE, env=environment(), check=False, text=True)
    assert (done.returncode, "No space left on device" in done.stderr) == (3, True)


def test_a_defect_is_no_decision(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("streammetrics.cli.commands.gate.run_gate", broken)
    done = called("gate", "good", "--url", base)
    assert (done.returncode, "ZeroDivisionError" in done.stderr) == (3, True)
