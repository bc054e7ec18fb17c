"""Sums of variants over time: equal to the panes, in at most so many spans, and read again when final panes were revised."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.events.event_time import NEVER
from streammetrics.windows.pane_trail import SPANS_MAX, PaneTrail, TrailSpan
from streammetrics.windows.panes import Group, decode_pane, encode_pane
from streammetrics.windows.rolling import WindowAggregator
from tests.windows.samples import LAYOUT, RULES, tally

CONTROL, TREATMENT, SEGMENT = Group("e", "control"), Group("e", "treatment"), Group("e", "control", "surface", "home")


def lists_only(group: Group, numbers: Sequence[int]) -> Sequence[int]:
    return [LAYOUT.lists(numbers)]


def windows_of(panes: dict[int, dict[Group, int]]) -> WindowAggregator:
    windows = WindowAggregator(LAYOUT, RULES, decode_pane)
    windows.update(0, stored(panes), None, NEVER)
    return windows


def stored(panes: dict[int, dict[Group, int]]) -> dict[int, bytes]:
    return {start: encode_pane({group: tally(lists) for group, lists in pane.items()}) for start, pane in panes.items()}


def total(spans: Sequence[TrailSpan], variant: str) -> int:
    return sum(span.sums.get(("e", variant), [0])[0] for span in spans)


def test_each_final_pane_is_a_span_of_variants_without_segments() -> None:
    windows = windows_of({0: {CONTROL: 3, SEGMENT: 3, Group(): 4}, 10: {TREATMENT: 2}, 20: {CONTROL: 1}})
    spans = PaneTrail(windows, lists_only).spans(0, 20)
    assert spans == (TrailSpan(0, 10, {("e", "control"): [3]}), TrailSpan(10, 20, {("e", "treatment"): [2]}))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=3 * SPANS_MAX), st.integers(1, 4))
def test_merged_spans_have_all_lists_of_the_panes(lists: list[int], steps: int) -> None:
    windows = windows_of({10 * at: {CONTROL: count, TREATMENT: 1} for at, count in enumerate(lists) if count})
    trail = PaneTrail(windows, lists_only)
    for step in range(1, steps + 1):
        end = 10 * (len(lists) * step // steps)
        spans = trail.spans(0, end)
    assert len(spans) <= SPANS_MAX
    assert total(spans, "control") == sum(lists)
    assert total(spans, "treatment") == sum(count > 0 for count in lists)
    assert len({span.end_ms - span.start_ms for span in spans}) <= 1


def test_old_spans_are_dropped_whole() -> None:
    windows = windows_of({10 * at: {CONTROL: 1} for at in range(6)})
    trail = PaneTrail(windows, lists_only)
    assert len(trail.spans(0, 50)) == 5
    assert [span.start_ms for span in trail.spans(30, 60)] == [30, 40, 50]


def test_earlier_spans_do_not_change() -> None:
    windows = windows_of({10 * at: {CONTROL: 1} for at in range(SPANS_MAX + 5)})
    trail = PaneTrail(windows, lists_only)
    before = trail.spans(0, 10 * SPANS_MAX)
    copies = [dict(span.sums) for span in before]
    trail.spans(0, 10 * (SPANS_MAX + 5))
    assert [dict(span.sums) for span in before] == copies


def test_revised_final_panes_are_read_again() -> None:
    windows = windows_of({0: {CONTROL: 3}, 10: {CONTROL: 1}})
    windows.window(20, "final", 27, NEVER, 15)  # panes up to 20 are final from here on
    trail = PaneTrail(windows, lists_only)
    assert total(trail.spans(0, 20), "control") == 4
    windows.update(0, stored({0: {CONTROL: 5}, 10: {CONTROL: 1}}), None, NEVER)
    assert windows.revisions == 1
    assert total(trail.spans(0, 20), "control") == 6
    windows.update(0, stored({10: {CONTROL: 1}}), None, NEVER)
    assert total(trail.spans(0, 20), "control") == 1
