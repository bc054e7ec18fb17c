"""`doctor` without servers: what it asks in which role, and when a port cannot be listened on."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from subprocess import CompletedProcess

import pytest

from streammetrics.cli.doctor import _Asked
from streammetrics.cli.doctor_checks import DoctorContext, DoctorFinding
from streammetrics.config import Settings
from streammetrics.errors import SourceError, StateError, StreammetricsError
from tests.servers.process import HOST, free_port
from tests.support.command_line import called


def examined(**given: object) -> CompletedProcess[str]:
    """What `doctor` says where neither Kafka nor Redis answers; `http__port` stands for http.port."""
    nobody = f"{HOST}:{free_port()}"
    places = {"kafka.bootstrap_servers": nobody, "redis.url": f"redis://{nobody}", "http.port": free_port()}
    settings = places | {key.replace("__", "."): value for key, value in given.items()}
    return called("doctor", *[word for key, value in settings.items() for word in ("--set", f"{key}={value}")])


@pytest.mark.parametrize("role", ["all", "worker"])
def test_whoever_consumes_needs_kafka(role: str) -> None:
    done = examined(worker__role=role)
    assert "correct kafka.bootstrap_servers" in done.stdout
    assert "2 failures" in done.stdout


def test_an_exporter_needs_no_kafka_and_is_told_that_it_was_not_asked() -> None:
    done = examined(worker__role="exporter", kafka__security_protocol="SSL", kafka__ssl_cafile="/no/such/file")
    assert "ok    not asked, because worker.role is exporter: an exporter never speaks to Kafka" in done.stdout
    assert "1 failure, 0 warnings" in done.stdout
    assert "check that Redis runs" in done.stdout


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (SourceError("no broker answers (one: refused; other: away)", "start one"), "start one"),
        (SourceError("no broker answers (one: refused; other: away)"), ""),
        (StateError("the control record has version 9: run the version that wrote it; or begin anew"), ""),
    ],
)
def test_what_to_do_is_told_apart_where_an_error_says_it_apart(error: StreammetricsError, fix: str) -> None:
    def check(settings: Settings, seen: DoctorContext) -> Iterator[DoctorFinding]:
        yield DoctorFinding("ok", "one broker of two")
        raise error

    found = list(_Asked(check, Settings(), DoctorContext(), time.monotonic() + 30))
    assert found == [("ok", "one broker of two", ""), ("fail", error.message, fix)]


def test_who_does_not_answer_is_told_with_what_to_do() -> None:
    told = examined().stdout
    assert "to mend: start that broker, or correct kafka.bootstrap_servers" in told
    assert "to mend: check that Redis runs, and redis.url" in told


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "a..b"])
def test_a_host_that_run_could_not_listen_on_is_a_failure(host: str) -> None:
    done = examined(http__host=host, worker__role="exporter")
    assert f"fail  http.host = {host}" in done.stdout
    assert "use an address of this machine: 127.0.0.1 for local clients only" in done.stdout
    assert "2 failures, 0 warnings" in done.stdout


def test_a_port_in_use_may_be_that_of_streammetrics_itself() -> None:
    with socket.create_server((HOST, 0)) as taken:
        done = examined(http__port=taken.getsockname()[1], worker__role="exporter")
    assert "warn  cannot be listened on: Address already in use" in done.stdout
    assert "1 failure, 1 warning" in done.stdout
