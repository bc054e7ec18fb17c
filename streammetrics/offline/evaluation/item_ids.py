"""Reads ranked item ids and the judgments of items, from dicts and sequences."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from streammetrics.metrics.arrays import Ints, Numbers
from streammetrics.metrics.names import MetricError
from streammetrics.offline.evaluation.judged import JudgedLists, Users, judge, require_common_lists
from streammetrics.offline.evaluation.numbers import of_values, offsets_of, require_sized, with_list_ids
from streammetrics.offline.evaluation.ranking import ItemLists, NegativeGrades, TieRule

Run: TypeAlias = Mapping[Any, Mapping[Any, float]]
Qrels: TypeAlias = Mapping[Any, Mapping[Any, float]]


def from_run(
    run: Run,
    qrels: Qrels,
    *,
    ties: TieRule = "order",
    complete: bool = False,
    negative: NegativeGrades = "error",
    users: Users | None = None,
) -> JudgedLists:
    """Read a run and its relevance judgments as dicts, in the format of pytrec_eval and ranx.

    run: list id -> item id -> score. Higher scores rank first. 64-bit integers are compared exactly. An integer beyond 2**53
        among fractions is rejected unless a double holds it.
    qrels: list id -> item id -> grade. An item without a judgment has grade 0. A judged item that the run lacks is unseen.
    ties: the order of equal scores. `order`: as in the run. `trec_eval`: scores are compared in double precision, and the greater item
        id (as text) ranks first, as in trec_eval 10. `error`: reject ties.
    complete: count lists of `qrels` that `run` lacks as empty lists, like trec_eval's -c. Otherwise only lists found in both are
        kept; the others are named in `only_ranked` and `only_judged`.
    negative: `zero` counts negative grades as 0, `error` rejects them.
    users: list id -> user id, or one user per kept list in the order of `run`. Standard errors are then clustered by user.

    Raises MetricError that names the list and the item. Ids that cannot match are rejected with one id of each side: no list id is in
    both, or no item matches because ids are text on one side and numbers on the other, or are written differently.

    >>> judged = from_run({"q1": {"a": 0.9, "b": 0.7}, "q2": {"a": 1.0}}, {"q1": {"b": 1, "c": 2}})
    >>> judged.lists, judged.positions, judged.grades, judged.unseen_grades, judged.only_ranked
    (('q1',), array([1]), array([1.]), array([2.]), ('q2',))
    """
    for subject, given in (("run", run), ("qrels", qrels)):
        if not isinstance(given, Mapping):
            raise MetricError(subject, f"got {type(given).__name__}; allowed is a mapping of list ids to mappings of item ids to numbers")
    kept = [name for name in run if name in qrels]
    only_judged = [name for name in qrels if name not in run]
    require_common_lists(run.keys(), qrels.keys())
    lists = [*kept, *only_judged] if complete else kept
    item_lists = ItemLists(lists, *_flattened([run.get(name, {}) for name in lists], lists))
    judgments = [_mapping(qrels[name], name) for name in lists]
    left_out = tuple(name for name in run if name not in qrels), () if complete else tuple(only_judged)
    return judge(item_lists, judgments, ties=ties, negative=negative, users=users, left_out=left_out)


def from_lists(
    ranked: Mapping[Any, Sequence[Hashable]] | Sequence[Sequence[Hashable]],
    relevant: Mapping[Any, Any] | Sequence[Any],
    *,
    complete: bool = False,
    users: Users | None = None,
) -> JudgedLists:
    """Read recommended item ids in rank order, and the relevant items.

    ranked: list id -> item ids, best first; or a sequence of such lists, with ids 0, 1, ...
    relevant: with the same keys (or length): the relevant items as a set or sequence (grade 1 each), or item id -> grade.
    complete, users: see `from_run`.

    Raises MetricError that names the list and the item.

    >>> from_lists([["a", "b", "c"], ["d"]], [{"b"}, {"e": 2}]).positions
    array([1])
    """
    by_list, judgments = with_list_ids(ranked), with_list_ids(relevant)
    if isinstance(ranked, Mapping) != isinstance(relevant, Mapping):
        raise MetricError("lists", "got a mapping and a sequence; allowed are two mappings with the same keys, or two sequences")
    if not isinstance(ranked, Mapping) and len(by_list) != len(judgments):
        raise MetricError("lists", f"got {len(by_list)} rankings and {len(judgments)} sets of relevant items; allowed are as many")
    kept = [name for name in by_list if name in judgments]
    only_judged = [name for name in judgments if name not in by_list]
    require_common_lists(by_list.keys(), judgments.keys())
    lists = [*kept, *only_judged] if complete else kept
    items = [_items_in_order(by_list.get(name, ()), name) for name in lists]
    item_lists = ItemLists(lists, offsets_of(map(len, items)), list(chain.from_iterable(items)), None)
    left_out = tuple(name for name in by_list if name not in judgments), () if complete else tuple(only_judged)
    return judge(item_lists, [_relevant_items(judgments[name], name) for name in lists], users=users, left_out=left_out)


def _items_in_order(items: Any, name: Hashable) -> Sequence[Hashable]:
    if isinstance(items, set | frozenset | Mapping):
        raise MetricError("items", f"got a {type(items).__name__} for list {name!r}; allowed is a sequence in rank order")
    items = require_sized("items", items, name)
    return items.tolist() if isinstance(items, np.ndarray) else items  # type: ignore[no-any-return]


def _relevant_items(relevant: Any, name: Hashable) -> Mapping[Any, float]:
    if isinstance(relevant, Mapping):
        return relevant
    relevant = require_sized("relevant items", relevant, name)
    try:
        return dict.fromkeys(relevant.tolist() if isinstance(relevant, np.ndarray) else relevant, 1)
    except TypeError as error:
        raise MetricError("relevant items", f"{error} in list {name!r}; allowed are hashable ids") from None


def _mapping(judgments: Any, name: Hashable) -> Mapping[Any, float]:
    if type(judgments) is not dict and not isinstance(judgments, Mapping):
        raise MetricError("qrels", f"got {type(judgments).__name__} for list {name!r}; allowed is a mapping of item id to grade")
    return judgments


def _flattened(lists: Sequence[Any], names: Sequence[Hashable]) -> tuple[Ints, Sequence[Hashable], Numbers]:
    """The offsets, items and scores of the lists of a run."""
    for one, name in zip(lists, names, strict=True):
        if type(one) is not dict and not isinstance(one, Mapping):  # the second check takes long
            raise MetricError("run", f"got {type(one).__name__} for list {name!r}; allowed is a mapping of item id to score")
    offsets = offsets_of(map(len, lists))
    items = list(chain.from_iterable(lists))
    scores = list(chain.from_iterable(one.values() for one in lists))
    return offsets, items, of_values("score", scores, ItemLists(names, offsets, items, None).place)
