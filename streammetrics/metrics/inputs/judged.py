"""Judged lists: the input of `evaluate`, and the functions that build it from dicts, sequences and arrays. Reads no files."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.metrics import checks
from streammetrics.metrics.arrays import Floats, Ints, Numbers
from streammetrics.metrics.inputs.cut import cut
from streammetrics.metrics.inputs.numbers import GRADE_END, GRADES_ALLOWED, comparable, is_missing, of_values, require_not_rounded
from streammetrics.metrics.inputs.overlap import require_common_lists, require_matching_items
from streammetrics.metrics.inputs.ranking import Found, GradedZero, ItemLists, NegativeGrades, Ranked, TieGroups, TieRule, find, rank
from streammetrics.metrics.names import MetricError

Run: TypeAlias = Mapping[Any, Mapping[Any, float]]
Qrels: TypeAlias = Mapping[Any, Mapping[Any, float]]
Users: TypeAlias = Mapping[Any, Hashable] | Sequence[Hashable]

_NO_INTS: Ints = np.zeros(0, dtype=np.int64)
_NO_GRADES: Floats = np.zeros(0, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Ranked lists with the grades of their items. Built by the `from_...` functions, read by `evaluate`.

    lists: L distinct list ids.
    lengths: int64, shape (L,): the number of items that each list shows.
    rows, positions, grades: shape (H,): list (index into `lists`), position (from 0) and grade of each shown item with a grade
        above 0. All other shown items have grade 0.
    unseen_rows, unseen_grades: shape (U,): relevant items that a list did not show.
    users: the user of each list, L of them, or None.
    ties: groups of equal scores to average over, or None.
    only_ranked, only_judged: ids of the lists that were left out because they had no judgments, or no ranking.
    zeros: the items that were judged and got grade 0; None if judged and other items cannot be told apart.
    """

    lists: tuple[Hashable, ...]
    lengths: Ints
    rows: Ints
    positions: Ints
    grades: Floats
    unseen_rows: Ints = field(default_factory=lambda: _NO_INTS)
    unseen_grades: Floats = field(default_factory=lambda: _NO_GRADES)
    users: tuple[Hashable, ...] | None = None
    ties: TieGroups | None = None
    only_ranked: tuple[Hashable, ...] = ()
    only_judged: tuple[Hashable, ...] = ()
    zeros: GradedZero | None = None

    def __len__(self) -> int:
        return len(self.lists)


def from_run(
    run: Run,
    qrels: Qrels,
    *,
    ties: TieRule = "order",
    complete: bool = False,
    negative: NegativeGrades = "error",
    users: Users | None = None,
    depth: int | None = None,
    judged_only: bool = False,
) -> Judged:
    """Read a run and its relevance judgments as dicts, in the format of pytrec_eval and ranx.

    run: list id -> item id -> score. Higher scores rank first. 64-bit integers are compared exactly. An integer beyond 2**53
        among fractions is rejected unless a double holds it.
    qrels: list id -> item id -> grade. An item without a judgment has grade 0. A judged item that the run lacks is unseen.
    ties: the order of equal scores. `order`: as in the run. `trec_eval`: scores are compared in double precision, and the greater item
        id (as text) ranks first, as in trec_eval 10. `trec_eval_9`: the same after rounding scores to single precision, as up to
        trec_eval 9. `average`: values are means over all orders of tied items, as in scikit-learn's ndcg_score. `error`: reject ties.
    complete: count lists of `qrels` that `run` lacks as empty lists, like trec_eval's -c. Otherwise only lists found in both are
        kept; the others are named in `only_ranked` and `only_judged`.
    negative: `zero` counts negative grades as not judged, as trec_eval does; `error` rejects them.
    users: list id -> user id, or one user per kept list in the order of `run`. Standard errors are then clustered by user.
    depth: use the first items of each list only, like trec_eval's -M. judged_only: leave items without a judgment out of the lists,
        like trec_eval's -J. Both come after ranking.

    Raises MetricError that names the list and the item. Ids that cannot match are rejected with one id of each side: no list id is in
    both, or no item matches because ids are text on one side and numbers on the other, or are written differently.

    >>> judged = from_run({"q1": {"a": 0.9, "b": 0.7}, "q2": {"a": 1.0}}, {"q1": {"b": 1, "c": 2}})
    >>> judged.lists, judged.positions, judged.grades, judged.unseen_grades, judged.only_ranked
    (('q1',), array([1]), array([1.]), array([2.]), ('q2',))
    """
    kept = [name for name in run if name in qrels]
    only_judged = [name for name in qrels if name not in run]
    require_common_lists(run.keys(), qrels.keys())
    lists = [*kept, *only_judged] if complete else kept
    shown = ItemLists(lists, *_flattened([run.get(name, {}) for name in lists], lists))
    judgments = [_mapping(qrels[name], name) for name in lists]
    left_out = tuple(name for name in run if name not in qrels), () if complete else tuple(only_judged)
    return judge(shown, judgments, ties=ties, negative=negative, users=users, left_out=left_out, depth=depth, judged_only=judged_only)


def from_lists(
    ranked: Mapping[Any, Sequence[Hashable]] | Sequence[Sequence[Hashable]],
    relevant: Mapping[Any, Any] | Sequence[Any],
    *,
    complete: bool = False,
    users: Users | None = None,
) -> Judged:
    """Read recommended item ids in rank order, and the relevant items.

    ranked: list id -> item ids, best first; or a sequence of such lists, with ids 0, 1, ...
    relevant: with the same keys (or length): the relevant items as a set or sequence (grade 1 each), or item id -> grade.
    complete, users: see `from_run`.

    Raises MetricError that names the list and the item.

    >>> from_lists([["a", "b", "c"], ["d"]], [{"b"}, {"e": 2}]).positions
    array([1])
    """
    by_list, judgments = _by_id(ranked), _by_id(relevant)
    if isinstance(ranked, Mapping) != isinstance(relevant, Mapping):
        raise MetricError("lists", "got a mapping and a sequence; allowed are two mappings with the same keys, or two sequences")
    if not isinstance(ranked, Mapping) and len(by_list) != len(judgments):
        raise MetricError("lists", f"got {len(by_list)} rankings and {len(judgments)} sets of relevant items; allowed are as many")
    kept = [name for name in by_list if name in judgments]
    only_judged = [name for name in judgments if name not in by_list]
    require_common_lists(by_list.keys(), judgments.keys())
    lists = [*kept, *only_judged] if complete else kept
    items = [_items_in_order(by_list.get(name, ()), name) for name in lists]
    shown = ItemLists(lists, _offsets(map(len, items)), list(chain.from_iterable(items)), None)
    left_out = tuple(name for name in by_list if name not in judgments), () if complete else tuple(only_judged)
    graded = all(isinstance(judgments[name], Mapping) for name in lists)
    judged = judge(shown, [_relevant_items(judgments[name], name) for name in lists], users=users, left_out=left_out)
    return judged if graded else replace(judged, zeros=None)


def from_grades(
    grades: Mapping[Any, Sequence[float]] | Sequence[Sequence[float]],
    *,
    scores: Mapping[Any, Sequence[float]] | Sequence[Sequence[float]] | None = None,
    ties: TieRule = "order",
    users: Users | None = None,
) -> Judged:
    """Read the grades of the shown items of each list.

    grades: list id -> grades; or a sequence of such lists, with ids 0, 1, ...
    scores: one number per grade, in the same shape; higher scores rank first. Without scores, grades are in rank order.
    ties: see `from_run`. `trec_eval` is rejected, because there are no item ids.

    Raises MetricError that names the list and the position.

    >>> from_grades([[0, 3, 1], []]).positions
    array([1, 2])
    >>> from_grades([[0, 3]], scores=[[0.1, 0.2]]).positions
    array([0])
    """
    by_list = _by_id(grades)
    offsets = _offsets(len(_sized("grades", one, name)) for name, one in by_list.items())
    flat = list(chain.from_iterable(by_list.values()))
    numbers = of_values("grade", flat, ItemLists(tuple(by_list), offsets, None, None).place)
    if scores is None:
        return from_ragged(numbers, offsets, lists=tuple(by_list), users=users)
    scores_of = _by_id(scores)
    for name, one in by_list.items():
        if name not in scores_of or len(_sized("scores", scores_of[name], name)) != len(one):
            got = len(scores_of[name]) if name in scores_of else "no"
            raise MetricError("scores", f"got {got} numbers for list {name!r}; allowed are {len(one)}, one per grade")
    ranking = list(chain.from_iterable(scores_of[name] for name in by_list))
    score_numbers = of_values("score", ranking, ItemLists(tuple(by_list), offsets, None, None).place)
    return from_ragged(numbers, offsets, scores=score_numbers, ties=ties, lists=tuple(by_list), users=users)


def from_ragged(
    grades: npt.ArrayLike,
    offsets: npt.ArrayLike,
    *,
    scores: npt.ArrayLike | None = None,
    ties: TieRule = "order",
    lists: Sequence[Hashable] | None = None,
    users: Users | None = None,
    unseen: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> Judged:
    """Read concatenated lists: list i has the grades[offsets[i]:offsets[i + 1]].

    grades, scores: numbers, shape (N,). Without scores, grades are in rank order. offsets: integers, shape (L + 1,), ascending
        from 0 to N.
    lists: L ids, by default 0, 1, ... ties: see `from_grades`. users: see `from_run`.
    unseen: (rows, grades), shape (U,) each: relevant items that a list did not show.

    Raises MetricError that names the list and the position.

    >>> from_ragged([0, 1, 2], [0, 2, 3], unseen=([1], [4])).lengths
    array([2, 1])
    """
    flat, borders = checks.numbers("grades", grades), checks.whole_numbers("offsets", offsets)
    checks.check_offsets(borders, flat.size)
    names = _list_ids(lists, borders.size - 1)
    numbers = None if scores is None else _ranking(scores, checks.numbers("scores", scores))
    if numbers is not None and numbers.size != flat.size:
        raise MetricError("scores", f"got {numbers.size}; allowed are {flat.size}, one per grade")
    shown = ItemLists(names, borders, None, numbers)
    doubles = flat.astype(np.float64)
    with np.errstate(invalid="ignore"):
        unusable = np.flatnonzero(~((doubles >= 0) & (doubles < GRADE_END)))
    if unusable.size:
        at = int(unusable[0])
        raise MetricError("grade", f"got {doubles[at]:g} at {shown.place(at)}; {GRADES_ALLOWED}")
    ranked = rank(shown, ties)
    hits = np.flatnonzero(doubles)
    unseen_rows, unseen_grades = _unseen(unseen, len(names))
    found = Found(shown.rows()[hits], ranked.positions[hits], doubles[hits], unseen_rows, unseen_grades)
    return _judged(shown, ranked, found, users)


def from_padded(
    grades: npt.ArrayLike,
    *,
    scores: npt.ArrayLike | None = None,
    lengths: npt.ArrayLike | None = None,
    ties: TieRule = "order",
    lists: Sequence[Hashable] | None = None,
    users: Users | None = None,
) -> Judged:
    """Read matrices with one list per row, as in scikit-learn: `from_padded(y_true, scores=y_score, ties="average")`.

    grades, scores: numbers, shape (L, width). lengths: integers 0..width, shape (L,); cells beyond a length are never read.
    Other arguments: see `from_ragged`. Raises MetricError that names the list and the position.

    >>> from_padded([[0, 1], [2, 0]], scores=[[0.1, 0.9], [0.2, 0.8]]).positions
    array([0, 1])
    """
    cells = checks.matrix("grades", grades)
    count, width = cells.shape
    sizes = np.full(count, width, dtype=np.int64) if lengths is None else checks.whole_numbers("lengths", lengths)
    if sizes.size != count:
        raise MetricError("lengths", f"got {sizes.size}; allowed are {count}, one per row")
    checks.check_lengths(sizes, width)
    inside = np.arange(width) < sizes[:, None]
    ranking = None
    if scores is not None:
        ranking = _ranking(scores, checks.matrix("scores", scores))
        if ranking.shape != cells.shape:
            raise MetricError("scores", f"got shape {ranking.shape}; allowed is {cells.shape}, that of the grades")
        ranking = ranking[inside]
    return from_ragged(cells[inside], _offsets(sizes.tolist()), scores=ranking, ties=ties, lists=lists, users=users)


def judge(
    shown: ItemLists,
    judgments: Sequence[Mapping[Any, float]],
    *,
    ties: TieRule = "order",
    negative: NegativeGrades = "error",
    users: Users | None = None,
    left_out: tuple[tuple[Hashable, ...], tuple[Hashable, ...]] = ((), ()),
    depth: int | None = None,
    judged_only: bool = False,
) -> Judged:
    """Match lists of item ids with one mapping of item -> grade per list. Shared by all readers with item ids."""
    if negative not in ("error", "zero"):
        raise MetricError("negative", f"got {negative!r}; allowed are error, zero")
    shown, ranked = cut(shown, rank(shown, ties), judgments, depth, judged_only)
    found = find(shown, ranked.positions, judgments, negative)
    if not found.rows.size:
        require_matching_items(shown, judgments)
    return _judged(shown, ranked, found, users, left_out)


def _judged(
    shown: ItemLists,
    ranked: Ranked,
    found: Found,
    users: Users | None,
    left_out: tuple[tuple[Hashable, ...], tuple[Hashable, ...]] = ((), ()),
) -> Judged:
    return Judged(
        tuple(shown.lists),
        np.diff(shown.offsets),
        *found[:5],
        _users_of(shown.lists, users),
        ranked.ties,
        only_ranked=left_out[0],
        only_judged=left_out[1],
        zeros=found.zeros,
    )


def _users_of(lists: Sequence[Hashable], users: Users | None) -> tuple[Hashable, ...] | None:
    if users is None:
        return None
    if isinstance(users, Mapping):
        given = tuple(users.get(name) for name in lists)
    else:
        given = tuple(users.tolist() if isinstance(users, np.ndarray) else users)
    if len(given) != len(lists):
        raise MetricError("users", f"got {len(given)}; allowed are {len(lists)}, one per list")
    for user, name in zip(given, lists, strict=True):
        # Without this check all lists with an unknown user would form one cluster.
        if is_missing(user) or not isinstance(user, Hashable):
            raise MetricError(
                "users", f"got {'none' if is_missing(user) else repr(user)} for list {name!r}; allowed is a hashable id for every list"
            )
    return given


def _list_ids(lists: Sequence[Hashable] | None, count: int) -> Sequence[Hashable]:
    if lists is None:
        return range(count)
    names: list[Hashable] = lists.tolist() if isinstance(lists, np.ndarray) else list(lists)
    if len(names) != count:
        raise MetricError("lists", f"got {len(names)} ids; allowed are {count}, one per list")
    for name in names:
        if not isinstance(name, Hashable):
            raise MetricError("lists", f"got id {name!r}; allowed are hashable ids")
    if len(set(names)) < count:
        seen: set[Hashable] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise MetricError("lists", f"got id {twice!r} twice; allowed is each id once")
    return names


def _ranking(given: npt.ArrayLike, scores: Numbers) -> Numbers:
    """Scores as comparable numbers; rejects integers that numpy rounded to floats."""
    require_not_rounded("score", given, scores, lambda at: f"index {at}")
    return comparable(scores)


def _unseen(unseen: tuple[npt.ArrayLike, npt.ArrayLike] | None, count: int) -> tuple[Ints, Floats]:
    if unseen is None:
        return _NO_INTS, _NO_GRADES
    rows, grades = checks.whole_numbers("unseen rows", unseen[0]), checks.numbers("unseen grades", unseen[1]).astype(np.float64)
    if rows.size != grades.size:
        raise MetricError("unseen", f"got {rows.size} rows and {grades.size} grades; allowed are equal sizes")
    wrong = np.flatnonzero((rows < 0) | (rows >= count) | ~((grades >= 0) & (grades < GRADE_END)))
    if wrong.size:
        at = int(wrong[0])
        raise MetricError(
            "unseen", f"got row {rows[at]}, grade {grades[at]:g} at index {at}; allowed are rows 0..{count - 1}, grades 0 <= grade < 2**53"
        )
    kept = grades > 0
    return rows[kept], grades[kept]


def _by_id(lists: Mapping[Any, Any] | Sequence[Any]) -> Mapping[Any, Any]:
    if isinstance(lists, str | bytes) or not hasattr(lists, "__len__"):
        raise MetricError("lists", f"got {lists!r}; allowed is a mapping by list id, or a sequence of lists")
    return lists if isinstance(lists, Mapping) else dict(enumerate(lists))


def _sized(what: str, values: Any, name: Hashable) -> Any:
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise MetricError(what, f"got {values!r} for list {name!r}; allowed is a sequence")
    return values


def _items_in_order(items: Any, name: Hashable) -> Sequence[Hashable]:
    if isinstance(items, set | frozenset | Mapping):
        raise MetricError("items", f"got a {type(items).__name__} for list {name!r}; allowed is a sequence in rank order")
    items = _sized("items", items, name)
    return items.tolist() if isinstance(items, np.ndarray) else items  # type: ignore[no-any-return]


def _relevant_items(relevant: Any, name: Hashable) -> Mapping[Any, float]:
    if isinstance(relevant, Mapping):
        return relevant
    relevant = _sized("relevant items", relevant, name)
    try:
        return dict.fromkeys(relevant.tolist() if isinstance(relevant, np.ndarray) else relevant, 1)
    except TypeError as error:
        raise MetricError("relevant items", f"{error} in list {name!r}; allowed are hashable ids") from None


def _mapping(judgments: Any, name: Hashable) -> Mapping[Any, float]:
    if not isinstance(judgments, Mapping):
        raise MetricError("qrels", f"got {type(judgments).__name__} for list {name!r}; allowed is a mapping of item id to grade")
    return judgments


def _offsets(lengths: Iterable[int]) -> Ints:
    return np.cumsum([0, *lengths], dtype=np.int64)


def _flattened(lists: Sequence[Any], names: Sequence[Hashable]) -> tuple[Ints, Sequence[Hashable], Numbers]:
    """The offsets, items and scores of the lists of a run."""
    for one, name in zip(lists, names, strict=True):
        if not isinstance(one, Mapping):
            raise MetricError("run", f"got {type(one).__name__} for list {name!r}; allowed is a mapping of item id to score")
    offsets = _offsets(map(len, lists))
    items = list(chain.from_iterable(lists))
    scores = list(chain.from_iterable(one.values() for one in lists))
    return offsets, items, of_values("score", scores, ItemLists(names, offsets, items, None).place)
