"""The feed of results: nothing is lost while the sink fails, and changed panes are sent again."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from streammetrics.errors import SourceError
from streammetrics.experiments.verdict import Verdict, Word
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.reports.result_records import ResultRecord, pane_records
from streammetrics.runtime.publish import results_feed
from streammetrics.runtime.publish.results_feed import ResultsFeed
from streammetrics.runtime.status import ProcessStatus
from streammetrics.windows.panes import Group, Pane
from tests.support.gates import waiting
from tests.support.tallies import tally_of
from tests.tools.servers.process import wait_until

LAYOUT = TallyLayout(Scorer(["hit_rate@2", "item_hit_rate@2"]))
REPORT: Any = SimpleNamespace(experiments=(), entered_ms=None, is_settled=True)


def pane(*lists: list[int]) -> Pane:
    return {Group("x", "a"): tally_of(LAYOUT, lists)}


class Panes:
    """The part of a report builder that the feed reads."""

    def __init__(self) -> None:
        self.aggregator = SimpleNamespace(revisions=0)
        self.rules = SimpleNamespace(pane_ms=10)
        self.layout = LAYOUT
        self.panes: dict[int, Pane] = {}

    def final_panes(self, report: object, first_ms: int) -> Iterator[tuple[int, Pane]]:
        yield from ((start, self.panes[start]) for start in sorted(self.panes) if start >= first_ms)


class Sink:
    """Keeps what it is sent; fails while `broken`."""

    def __init__(self) -> None:
        self.records: list[ResultRecord] = []
        self.broken = False

    def write(self, records: Iterable[ResultRecord]) -> None:
        if self.broken:
            raise SourceError("broken")
        self.records += records


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Panes, Sink, ResultsFeed, ProcessStatus]]:
    monkeypatch.setattr(results_feed, "BACKOFF_SECONDS_MAX", 0.01)
    panes, sink, status, stop = Panes(), Sink(), ProcessStatus(), threading.Event()
    feed: Any = ResultsFeed(panes, sink, status, lambda report: report.is_settled)  # type: ignore[arg-type]
    thread = threading.Thread(target=feed.run, args=(stop,))
    thread.start()
    yield panes, sink, feed, status
    stop.set()
    thread.join()


def test_a_pane_is_one_record_with_its_integers() -> None:
    (record,) = pane_records(20, pane([0, 1], [0, 0, 1], []), pane_ms=10, layout=LAYOUT)
    assert msgspec.json.decode(record.key) == {"type": "pane", "pane_start_ms": 20, "experiment": "x", "variant": "a", "segments": ""}
    value = msgspec.json.decode(record.value)
    assert (value["lists"], value["lists_with_feedback"], value["pane_ms"], record.at_ms) == (3, 2, 10, 30)
    assert value["metrics"] == [
        {"metric": "hit_rate", "k": 2, "numerator": 1 << 40, "denominator": 3, "scale_bits": 40},
        {"metric": "item_hit_rate", "k": 2, "numerator": 1, "denominator": 4, "scale_bits": 0},
    ]
    assert list(pane_records(20, pane([0, 1], [0, 0, 1], []), pane_ms=10, layout=LAYOUT)) == [record]


def test_what_a_broken_sink_refuses_is_sent_later(parts: tuple[Panes, Sink, ResultsFeed, ProcessStatus]) -> None:
    panes, sink, feed, status = parts
    sink.broken = True
    panes.panes = {0: pane([1])}
    feed.on_report(REPORT)
    wait_until(lambda: status.results["failed"] > 1, what="the sink has failed twice")
    panes.panes[10] = pane([0])
    feed.on_report(REPORT)  # the first still waits
    sink.broken = False
    wait_until(lambda: status.results["sent"] == 1, what="the first pane is sent")
    wait_until(lambda: feed.on_report(REPORT) or status.results["sent"] == 2, what="the second pane is sent")
    assert [record.at_ms for record in sink.records] == [10, 20]


def test_verdicts_wait_until_the_report_is_settled(parts: tuple[Panes, Sink, ResultsFeed, ProcessStatus]) -> None:
    panes, sink, feed, status = parts
    panes.panes = {0: pane([1])}
    wait_until(
        lambda: feed.on_report(verdict_report("regressed", is_settled=False)) or status.results["sent"] == 1, what="the pane is sent"
    )
    wait_until(lambda: feed.on_report(verdict_report("inconclusive")) or status.results["sent"] == 2, what="the verdict is sent")
    decoded_records = [msgspec.json.decode(record.value) for record in sink.records]
    assert [record.get("verdict") for record in decoded_records] == [None, "inconclusive"]
    key = {"type": "verdict", "experiment": "x", "scope": "start", "variant": ""}
    assert msgspec.json.decode(sink.records[1].key) == key
    assert decoded_records[1].items() >= {**key, "code": 0, "reason": "", "parts": [], "lift": None, "up_to_ms": 7}.items()
    assert sink.records[1].at_ms == 7


def verdict_report(word: Word, *, is_settled: bool = True) -> Any:
    experiment = replace(waiting("x"), verdict=Verdict(word, ""), variants=())
    return SimpleNamespace(experiments=(experiment,), entered_ms=7, is_settled=is_settled)


def test_panes_that_changed_after_they_were_final_are_sent_again(parts: tuple[Panes, Sink, ResultsFeed, ProcessStatus]) -> None:
    panes, sink, feed, status = parts
    panes.panes = {0: pane([1])}
    wait_until(lambda: feed.on_report(REPORT) or status.results["sent"] == 1, what="the pane is sent")
    panes.panes[0] = pane([1], [0])
    panes.aggregator.revisions += 1
    wait_until(lambda: feed.on_report(REPORT) or status.results["sent"] == 2, what="the changed pane is sent")
    assert sink.records[0].key == sink.records[1].key
    assert sink.records[0].value != sink.records[1].value
