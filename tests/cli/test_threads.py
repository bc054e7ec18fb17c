"""Tests of threads that stop together: a failed thread stops all, and its error is raised at the end."""

from __future__ import annotations

import contextlib
import threading

import pytest
import structlog

from streammetrics.cli.threads import StoppableThread


def failing(stop: threading.Event) -> None:
    raise ValueError("cannot go on")


def patient(stop: threading.Event) -> None:
    assert stop.wait(30)


def test_ending_a_thread_does_not_stop_the_others() -> None:
    stop_all = threading.Event()
    with StoppableThread("patient", patient, stop_all) as part:
        part.end()
    assert not stop_all.is_set()


def test_a_failed_thread_stops_all_and_its_error_is_raised() -> None:
    stop_all = threading.Event()
    with pytest.raises(ValueError, match="cannot go on"), StoppableThread("failing", failing, stop_all):
        assert stop_all.wait(30)


def test_the_reason_for_stopping_all_is_logged() -> None:
    with structlog.testing.capture_logs() as lines, contextlib.suppress(ValueError), StoppableThread("failing", failing, threading.Event()):
        pass
    assert [(line["event"], line["error"]) for line in lines] == [("failing failed, stopping the process", "cannot go on")]


def test_an_error_of_the_block_takes_precedence() -> None:
    with pytest.raises(KeyError), StoppableThread("failing", failing, threading.Event()):
        {}["what the block needs"]


def test_leaving_the_block_ends_the_thread() -> None:
    ended = threading.Event()

    def body(stop: threading.Event) -> None:
        patient(stop)
        ended.set()

    with StoppableThread("patient", body, threading.Event()):
        pass
    assert ended.is_set()


def test_a_thread_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streammetrics.cli.threads.END_SECONDS", 0.05)
    go_on = threading.Event()

    def deaf(stop: threading.Event) -> None:
        go_on.wait(30)

    thread = StoppableThread("deaf", deaf, threading.Event())
    with structlog.testing.capture_logs() as lines, thread:
        pass
    assert [line["event"] for line in lines] == ["deaf has not ended in time; the process ends without it"]
    go_on.set()
    thread.end()
