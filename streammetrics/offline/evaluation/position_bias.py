"""The examination curve of ranked lists and clicks, for notebooks: `metrics.examination` says how and why."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from streammetrics.metrics.examination import CONFIDENCE, RANKS_MAX, ExaminationCurve, examination_curve
from streammetrics.metrics.names import MetricError


def position_bias(
    ranked: Mapping[Any, Sequence[Hashable]] | Sequence[Sequence[Hashable]],
    clicked: Mapping[Any, Collection[Hashable]] | Sequence[Collection[Hashable]],
    *,
    contexts: Mapping[Any, Hashable] | Sequence[Hashable] | None = None,
    ranks_max: int = 10,
    confidence: float = CONFIDENCE,
) -> ExaminationCurve:
    """Estimate how likely users look at each rank, relative to rank 1, from lists in which the same items have several ranks.

    ranked: list id -> item ids, best first; or a sequence of such lists. Only the first place of an item in a list counts.
    clicked: with the same keys (or length): the clicked items of the list. Items that it does not show count nowhere.
    contexts: with the same keys (or length): within what an item attracts all users alike, such as the query. None: an item does so
        in all lists. A context that is too wide biases the curve, because a ranker shows an item higher where it attracts more.
    ranks_max: the last rank of the curve, up to 50. confidence: of the band.

    The ranks of an item should differ for a reason that has nothing to do with users: an A/B test, or interleaved lists. Ranks without
    an estimate have a reason instead. Raises MetricError that names the list.

    >>> one, other = ["a", "b"], ["b", "a"]
    >>> lists = 400 * [one] + 400 * [other]
    >>> clicked = 200 * ["a"] + 50 * ["b"] + 150 * [""] + 100 * ["a"] + 100 * ["b"] + 200 * [""]
    >>> position_bias(lists, clicked, ranks_max=2)
    rank  examination  lower   upper   shared_clicks  why_not
    1     1.0000       1.0000  1.0000  300            -
    2     0.5000       0.4233  0.5906  150            -
    """
    lists = ranked if isinstance(ranked, Mapping) else dict(enumerate(ranked))
    clicks = _of_lists("clicked", clicked, ranked, lists)
    context = dict.fromkeys(lists) if contexts is None else _of_lists("contexts", contexts, ranked, lists)
    if type(ranks_max) is not int or not 1 <= ranks_max <= RANKS_MAX:
        raise MetricError("ranks_max", f"got {ranks_max!r}; allowed are whole numbers 1..{RANKS_MAX}")
    counts: dict[tuple[Hashable, Hashable, int], list[int]] = {}
    for name, items in lists.items():
        first = {item: place for place, item in reversed(list(enumerate(items[:ranks_max])))}
        for item, place in first.items():
            entry = counts.setdefault((context[name], item, place), [0, 0])
            entry[0] += 1
            entry[1] += item in clicks[name]
    numbers: dict[tuple[Hashable, Hashable], int] = {}
    entries = [(numbers.setdefault((where, item), len(numbers)), place + 1, *each) for (where, item, place), each in counts.items()]
    of_items, ranks, shows, clicked_shows = np.array(entries, dtype=np.int64).reshape(-1, 4).T
    return examination_curve(of_items, ranks, shows, clicked_shows, ranks_max=ranks_max, confidence=confidence)


def _of_lists(what: str, given: Any, ranked: object, lists: Mapping[Any, object]) -> Mapping[Any, Any]:
    """Return what belongs to each list, by the ids of the lists."""
    if isinstance(given, Mapping) != isinstance(ranked, Mapping):
        raise MetricError(what, "got a mapping and a sequence of lists, or the reverse; allowed are two mappings, or two sequences")
    if isinstance(given, Mapping):
        if missing := [name for name in lists if name not in given]:
            raise MetricError(what, f"got none for list {missing[0]!r}; allowed is one for each list")
        return given
    if len(given) != len(lists):
        raise MetricError(what, f"got {len(given)}; allowed are {len(lists)}, one per list")
    return dict(enumerate(given))
