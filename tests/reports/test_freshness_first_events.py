"""Tests of what is said while there are no events."""

from __future__ import annotations

from streammetrics.config import load
from streammetrics.events import Feedback, Impression
from streammetrics.reports.freshness import EXAMPLES, FirstEvents
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.reports import first_verdict_wait
from tests.support.committed_state import Pipeline, two_variants

TOPICS = ("impressions", "feedback")


def test_the_examples_are_a_list_and_a_feedback_on_one_of_its_items() -> None:
    decode = build_decoder(load(None, {}, {}).settings)
    (impression,), (reaction,) = (decode(text.encode()) for text in EXAMPLES)
    assert isinstance(impression, Impression)
    assert isinstance(reaction, Feedback)
    assert (reaction.user_id, reaction.impression_id) == (impression.user_id, impression.impression_id)
    assert reaction.item_id in impression.items
    assert 0 < reaction.ts - impression.ts < 60_000


def test_before_any_commit_the_topics_are_named() -> None:
    report = Pipeline().report()
    assert report.tasks_committed == 0
    assert FirstEvents(TOPICS).sentences(report) == (
        "Numbers appear when every task has read events. 0 of 1 tasks have committed.",
        "No events yet on impressions, feedback.",
    )


def test_after_a_commit_the_inputs_without_events_are_named() -> None:
    report = Pipeline().feed("impressions", Impression("r", "u", 1_732_183_200_000, ("a",))).report()
    assert FirstEvents(TOPICS).sentences(report) == (
        "Live numbers count the lists so far. Whole windows follow once every task has read events.",
        "No events yet on feedback 0.",
        "1 record so far.",
    )


def test_inputs_whose_events_do_not_set_the_time_yet_are_not_called_empty() -> None:
    pipeline = Pipeline(support_users=5).feed("impressions", Impression("r", "u", 1_732_183_200_000, ("a",)))
    assert FirstEvents(TOPICS).sentences(pipeline.report())[1] == "No events yet on feedback 0."
    pipeline.feed("feedback", Feedback("u", 1_732_183_200_001, "a", "click"))
    assert FirstEvents(TOPICS).sentences(pipeline.report())[1] == (
        "Few events yet on feedback 0, impressions 0: numbers wait for more, or until join.idle_ms after the last record."
    )


def test_with_numbers_nothing_is_said() -> None:
    assert FirstEvents(TOPICS).sentences(two_variants().report()) == ()


def test_the_time_to_the_first_verdict_is_said_if_there_can_be_one() -> None:
    report = Pipeline().report()
    wait = first_verdict_wait(load(None, {}, {}).settings)
    assert wait is not None
    assert FirstEvents(TOPICS, verdict=wait).sentences(report)[-1] == wait.sentence()
    assert wait.sentence().startswith(
        "A first verdict comes 31 min to 41 min after the first lists, or later if users are few: lists are final 31 min"
    )
    assert first_verdict_wait(load(None, {}, {"experiments.enabled": "false"}).settings) is None


def test_records_of_a_reader_are_explained_by_decode() -> None:
    (sentence,) = FirstEvents(TOPICS, has_reader=True).advice()
    assert "events.reader" in sentence
    assert "`streammetrics decode TOPIC`" in sentence
