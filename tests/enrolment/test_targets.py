"""Where lists count: by their times, in any order, and at the ends of what counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.enrolment.rules import ExperimentRules, Span
from streammetrics.enrolment.runs import ExperimentRuns
from streammetrics.enrolment.targets import ListTargets

TIMES = st.integers(0, 20)


def ends(first: int | None, end: int | None) -> tuple[int, int]:
    return -1 if first is None else first, 100 if end is None else end


@given(
    st.lists(TIMES, min_size=1, max_size=12),
    st.tuples(st.none() | TIMES, st.none() | TIMES),
    st.tuples(TIMES, TIMES),
    st.lists(TIMES, min_size=1, max_size=3),
)
def test_a_list_counts_if_its_time_does_whatever_was_asked_before(
    times: list[int], span: tuple[int | None, int | None], counted: tuple[int, int], of_run: list[int]
) -> None:
    rules, runs = ExperimentRules(spans={"ranker": Span(*span)}), ExperimentRuns(100)
    for ts in of_run:
        runs.extend("ranker", "a", ts)
    targets = ListTargets(runs, rules, [(("ranker", "a"),)], pane_ms=1, counted_from=counted[0], counted_until=counted[1])
    first, end = ends(*span)
    for ts in times:
        target = targets.at(0, ts)
        assert target.first <= ts <= target.last
        counts = max(first, counted[0]) <= ts < min(end, counted[1]) and min(of_run) <= ts <= max(of_run)
        assert (bool(target.sets), target.runs) == (counts, (1,) if counts else ())
