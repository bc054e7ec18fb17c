"""The panes in the form that a replay writes: one dictionary per line."""

from __future__ import annotations

from tests.oracle.scores import scale_bits
from tests.oracle.values import Group, Result, Tally


def pane_lines(result: Result) -> list[dict[str, object]]:
    """Return one line per (pane, group, view), sorted by pane, experiment, variant, segments, view.

    Every pane has a line with view `live`. A pane that ends at or before F also has one with view `final`. Segments sort as tuples of
    (name, value) pairs, so a group without segments comes first.
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
