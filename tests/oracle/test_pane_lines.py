"""The lines of panes."""

from __future__ import annotations

from dataclasses import replace

from tests.oracle import (
    expected_result,
    pane_lines,
)
from tests.oracle.traces import ONE, feedback, show


class TestLines:
    TRACE = (show("x", 0, experiments=(("ranker", "new"),)), feedback(1, "a", "purchase"), show("y", 6), show("z", 12))

    def test_every_pane_is_live_and_panes_up_to_f_are_also_final(self) -> None:
        lines = pane_lines(expected_result(self.TRACE, ONE))
        assert [(line["pane_start_ms"], line["experiment"], line["view"]) for line in lines] == [
            (0, "", "final"),
            (0, "", "live"),
            (0, "ranker", "final"),
            (0, "ranker", "live"),
            (4, "", "live"),
            (12, "", "live"),
        ]

    def test_a_pane_that_ends_at_f_is_final(self) -> None:
        at_4, at_3 = (expected_result([show("x", 0), show("y", last)], ONE) for last in (11, 10))
        assert (at_4.f_ms, at_3.f_ms) == (4, 3)
        assert [line["view"] for line in pane_lines(at_4)] == ["final", "live", "live"]
        assert [line["view"] for line in pane_lines(at_3)] == ["live", "live"]

    def test_a_line_has_all_values_of_its_pane_and_group(self) -> None:
        line = pane_lines(expected_result(self.TRACE, replace(ONE, cutoffs=(1,), segments=("surface",)), flush=True))[2]
        metrics = line.pop("metrics")
        assert line == {
            "pane_start_ms": 0,
            "pane_ms": 4,
            "experiment": "",
            "variant": "",
            "segments": {"surface": ""},
            "view": "final",
            "lists": 1,
            "lists_with_feedback": 1,
        }
        assert isinstance(metrics, dict)
        assert metrics["ndcg@1"] == {"sum": 1.0, "sum_raw": 2**40, "scale_bits": 40}
        assert metrics["cg@1"] == {"sum": 3.0, "sum_raw": 3 * 2**32, "scale_bits": 32}
        assert metrics["item_hit_rate@1"] == {"hits": 1, "places": 1}
