"""MIND: lines of behaviors.tsv."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events import EventLimits, Feedback, Impression
from streammetrics.readers.mind import read
from tests.readers.reading import events_of, parts_of
from tests.readers.samples import NOON

LISTED = Impression("17", "U7", NOON, ("N1", "N2"))


def line(impressions: str, time: str = "3/1/2026 12:00:00 PM") -> str:
    return "\t".join(["17", "U7", time, "N8 N9", impressions])


def test_a_line_is_a_list_with_its_clicks() -> None:
    clicks = [Feedback("U7", NOON, item, "click", None, "17") for item in ("N2", "N4")]
    assert events_of(read, line("N1-0 N2-1 N3-0 N4-1")) == [Impression("17", "U7", NOON, ("N1", "N2", "N3", "N4")), *clicks]
    assert events_of(read, line("N1-0 N2-0")) == events_of(read, line("N1-0 N2-0") + "\r") == [LISTED]
    assert events_of(read, line("N1 N2")) == [LISTED], "the test set has no labels"


def test_damaged_lines_are_refused() -> None:
    for damaged in (line("N1-0 N2-2"), line("N1-0", time="yesterday"), "17\tU7\tN1-0", "", b"\xff\t\t\t\t"):
        assert events_of(read, damaged) == ["reader"]
    assert events_of(read, line("N1-0"), EventLimits(event_bytes_max=10)) == ["oversized"]


@given(cells=st.lists(st.text(max_size=20) | st.sampled_from(["N1-1", "3/1/2026 12:00:00 PM"]), max_size=6))
def test_no_line_raises(cells: list[str]) -> None:
    assert parts_of(read, "\t".join(cells).encode(errors="surrogatepass"))
