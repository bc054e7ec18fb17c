"""Tests of `doctor` without servers: the checks of each role, and the HTTP port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from subprocess import CompletedProcess

import pytest

from streammetrics.cli.commands.doctor import VERDICTS_LATE, _RunningCheck
from streammetrics.cli.doctor.findings import DoctorFinding, print_findings
from streammetrics.errors import SourceError, StateError, StreammetricsError
from tests.support.command_line import called
from tests.tools.servers.process import HOST, free_port


def examined(**given: object) -> CompletedProcess[str]:
    """Run `doctor` without Kafka and Redis; `http__port` stands for http.port."""
    closed = f"{HOST}:{free_port()}"
    places = {"kafka.bootstrap_servers": closed, "redis.url": f"redis://{closed}", "http.port": free_port()}
    settings = places | {key.replace("__", "."): value for key, value in given.items()}
    return called("doctor", *[word for key, value in settings.items() for word in ("--set", f"{key}={value}")])


@pytest.mark.parametrize("role", ["all", "worker"])
def test_a_consuming_role_requires_kafka(role: str) -> None:
    done = examined(worker__role=role)
    assert "correct kafka.bootstrap_servers" in done.stdout
    assert "2 failures" in done.stdout


def test_an_exporter_skips_the_kafka_check() -> None:
    done = examined(worker__role="exporter", kafka__security_protocol="SSL", kafka__ssl_cafile="/no/such/file")
    assert "ok    skipped, because worker.role is exporter: an exporter does not use Kafka" in done.stdout
    assert "1 failure, 0 warnings" in done.stdout
    assert "check that Redis runs" in done.stdout


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (SourceError("no broker answers (one: refused; other: away)", "start one"), "start one"),
        (SourceError("no broker answers (one: refused; other: away)"), ""),
        (StateError("the control record has version 9: run the version that wrote it; or start again"), ""),
    ],
)
def test_the_fix_of_an_error_is_shown_separately(error: StreammetricsError, fix: str) -> None:
    def check() -> Iterator[DoctorFinding]:
        yield DoctorFinding("ok", "one broker of two")
        raise error

    findings = list(_RunningCheck(check, time.monotonic() + 30))
    assert findings == [("ok", "one broker of two", ""), ("fail", error.message, fix)]


def test_a_check_that_is_late_has_a_finding_of_its_own() -> None:
    forever = threading.Event()

    def check() -> Iterator[DoctorFinding]:
        forever.wait()
        yield DoctorFinding("ok", "too late")

    assert list(_RunningCheck(check, time.monotonic() + 0.01, VERDICTS_LATE)) == [VERDICTS_LATE]
    (late,) = _RunningCheck(check, time.monotonic() + 0.01)
    assert (late.level, late.text) == ("fail", "no answer within 8 s")
    forever.set()


def test_unreachable_servers_are_reported_with_a_fix() -> None:
    output = examined().stdout
    assert "fix: start that broker, or correct kafka.bootstrap_servers" in output
    assert "fix: check that Redis runs, and redis.url" in output


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a..b"])
def test_a_host_that_run_cannot_listen_on_is_a_failure(host: str) -> None:
    done = examined(http__host=host, worker__role="exporter")
    assert f"fail  http.host = {host}" in done.stdout
    assert "use an address of this machine: 127.0.0.1 for local clients only" in done.stdout
    assert "2 failures, 0 warnings" in done.stdout


def test_a_port_in_use_is_only_a_warning() -> None:
    with socket.create_server((HOST, 0)) as taken:
        done = examined(http__port=taken.getsockname()[1], worker__role="exporter")
    assert "warn  cannot listen: Address already in use" in done.stdout
    assert "1 failure, 1 warning" in done.stdout


def test_findings_hold_no_control_characters_of_others(capsys: pytest.CaptureFixture[str]) -> None:
    levels = list(print_findings("Kafka", [DoctorFinding("warn", "the topic \x1b[2Jshop\nstored a", "rename \u202eit")]))
    assert levels == ["warn"]
    assert capsys.readouterr().out.splitlines()[-3:] == ["  warn  the topic \ufffd[2Jshop", "stored a", "        fix: rename \ufffdit"]
