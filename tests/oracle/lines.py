"""The panes as a replay writes them, one line as one dictionary."""

from __future__ import annotations

from tests.oracle.scores import scale_bits
from tests.oracle.values import Group, Result, Tally


def panes_lines(result: Result) -> list[dict[str, object]]:
    """One line per (pane, group, view), sorted by pane, experiment, variant, segments, view.

    Every tallied pane has a line with view `live`; one that ends at or before F has one with view `final` as well.
    Segments sort as tuples of (name, value) pairs, so a group without segments comes before the same one with them.
    """
    lines = []
    for (start, group), tally in sorted(result.panes.items(), key=lambda entry: entry[0]):
        is_final = start + result.settings.pane_ms <= result.f_ms
        lines += [_line(start, result.settings.pane_ms, group, view, tally) for view in ("final", "live") if is_final or view == "live"]
    return lines


def _line(start: int, pane_ms: int, group: Group, view: str, tally: Tally) -> dict[str, object]:
    sums = {
        name: {"sum": total / 2 ** scale_bits(name), "sum_raw": total, "scale_bits": scale_bits(name)} for name, total in tally.sums.items()
    }
    ratios = {name: {"hits": tally.hits[name], "places": tally.places[name]} for name in tally.hits}
    return {
        "pane_start_ms": start,
        "pane_ms": pane_ms,
        "experiment": group.experiment,
        "variant": group.variant,
        "segments": dict(group.segments),
        "view": view,
        "lists": tally.lists,
        "lists_with_feedback": tally.lists_with_feedback,
        "metrics": {**sums, **ratios},
    }
