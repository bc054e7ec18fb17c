"""Threads that end as one: a failure of one stops all and is raised at its end; an end that was asked for is no failure."""

from __future__ import annotations

import contextlib
import threading

import pytest
import structlog

from streammetrics.cli.process.threads import StoppableThread


def failing(stop: threading.Event) -> None:
    raise ValueError("cannot go on")


def patient(stop: threading.Event) -> None:
    assert stop.wait(30)


def test_one_that_is_told_to_end_ends_and_stops_nobody_else() -> None:
    stop_all = threading.Event()
    with StoppableThread("patient", patient, stop_all) as part:
        part.end()
    assert not stop_all.is_set()


def test_what_one_cannot_go_on_after_stops_all_and_is_raised_at_its_end() -> None:
    stop_all = threading.Event()
    with pytest.raises(ValueError, match="cannot go on"), StoppableThread("failing", failing, stop_all):
        assert stop_all.wait(30)


def test_why_all_is_told_to_stop_is_in_the_log() -> None:
    with structlog.testing.capture_logs() as lines, contextlib.suppress(ValueError), StoppableThread("failing", failing, threading.Event()):
        pass
    assert [(line["event"], line["error"]) for line in lines] == [("the failing cannot go on, so all is told to stop", "cannot go on")]


def test_an_error_of_the_block_itself_is_the_one_that_is_told() -> None:
    with pytest.raises(KeyError), StoppableThread("failing", failing, threading.Event()):
        {}["what the block needs"]


def test_leaving_the_block_ends_what_runs() -> None:
    ended = threading.Event()

    def body(stop: threading.Event) -> None:
        patient(stop)
        ended.set()

    with StoppableThread("patient", body, threading.Event()):
        pass
    assert ended.is_set()
