"""A/A experiments of guarded rollouts: ramps in stages, and traffic split list by list. The package's own reports judge every look.

Users come back, move from the control to the treatment as its share grows, and change their tastes. Lists are those of `aa_hard`. All
sums are integers, with the cross moments of cells, so a look equals the engine's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from streammetrics.experiments import (
    Cell,
    CovarianceLayout,
    ExperimentReport,
    ExperimentUnit,
    Policy,
    Stage,
    Stored,
    StoredStage,
    add,
    build_report,
    choose_scales,
)
from tests.bench.aa_hard import BITS, MEASURES, WORDS
from tests.bench.aa_traffic import Floats, Ints

RAMP_LOOKS = 80
ARMS = ("control", "treatment")
SPAN_MS = 1_000_000
"""The time of an experiment. Stages have equal parts of it."""
CROSS = CovarianceLayout(MEASURES)
_SCALED = {2, 3}
"""Entries of a row in units of 2**-40: ndcg and hit_rate."""


@dataclass(frozen=True, slots=True)
class Ramp:
    """Traffic of one kind. `shares` are the treatment's by stage; one share is no ramp.

    by_list: each list draws its arm. early: all users are there from the beginning and return in every stage. heavy: early users have four
    times as many lists and another taste. drift: how much the chance of a click falls in the last stage. own: each user has another taste
    in each stage. redrawn: arms are drawn again in each stage. sticky: users keep the arm that they draw with their first list. later: how
    much fewer clicks users have who come after the first stage. hits: share of lists with a click; 0: users differ, 37 % on average.
    pareto: tail index of the lists per user; 0: geometric with mean 5. strong: users differ a lot.
    """

    name: str
    shares: tuple[float, ...]
    users: int = 6_000
    by_list: bool = False
    early: bool = False
    heavy: bool = False
    drift: float = 0.0
    own: bool = False
    redrawn: bool = False
    sticky: bool = False
    later: float = 0.0
    hits: float = 0.0
    pareto: float = 0.0
    strong: bool = False


STEPS = (0.01, 0.05, 0.25, 0.5)
RAMPS = (
    Ramp("5 → 50 %", (0.05, 0.5)),
    Ramp("1 → 5 → 25 → 50 %", STEPS, 8_000),
    Ramp("5 → 50 %, all return and move", (0.05, 0.5), early=True),
    Ramp("5 → 50 %, 40 % fewer clicks in stage 2", (0.05, 0.5), drift=0.4),
    Ramp("1 → 5 → 25 → 50 %, heavy early users, drift", STEPS, 8_000, heavy=True, drift=0.4),
    Ramp("1 → 5 → 25 → 50 %, another taste in each stage", STEPS, 8_000, own=True),
    Ramp("1 → 5 → 25 → 50 %, arms drawn again in each stage", STEPS, 8_000, redrawn=True),
    Ramp("5 → 50 %, hits are rare (2 %)", (0.05, 0.5), 8_000, hits=0.02),
    Ramp("1 → 5 → 25 → 50 %, hits are rare (4 %)", STEPS, 8_000, hits=0.04),
    Ramp("5 → 50 %, users keep their arm, later ones click 30 % less", (0.05, 0.5), sticky=True, later=0.3),
    Ramp("1 → 5 → 25 → 50 %, the same, and 20 % fewer clicks in the last stage", STEPS, 8_000, sticky=True, later=0.3, drift=0.2),
    Ramp("5 → 50 %, users move, later ones click 30 % less, drift", (0.05, 0.5), later=0.3, drift=0.2),
    Ramp("50 → 25 → 5 %, shares fall", (0.5, 0.25, 0.05), drift=0.4),
    Ramp("5 → 25 → 5 → 50 %, back and forth", (0.05, 0.25, 0.05, 0.5), early=True, drift=0.4),
)
SPLITS = (
    Ramp("by list, 50 %", (0.5,), 2_000, by_list=True),
    Ramp("by list, 5 %", (0.05,), 4_000, by_list=True),
    Ramp("by list, users differ a lot", (0.5,), 2_000, by_list=True, strong=True),
    Ramp("by list, Pareto 1.3 lists per user", (0.5,), 2_000, by_list=True, pareto=1.3),
    Ramp("by list, hits are rare (2 %)", (0.5,), 4_000, by_list=True, hits=0.02),
    Ramp("by list, 5 → 50 %, 40 % fewer clicks in stage 2", (0.05, 0.5), 4_000, by_list=True, drift=0.4),
)


LIFTS = (-0.2, -0.05, 0.05)
"""True lifts of which the verdicts are counted. Verdicts of the other direction are wrong."""
LIFTED = (
    Ramp("5 → 50 %, 20,000 users", (0.05, 0.5), 20_000),
    Ramp("1 → 5 → 25 → 50 %, all return and move", STEPS, 8_000, early=True, drift=0.4),
    Ramp("5 → 50 %, 20,000 users keep their arm, later ones click 30 % less", (0.05, 0.5), 20_000, sticky=True, later=0.3),
    Ramp("by list, 50 %", (0.5,), 2_000, by_list=True),
)


@dataclass(slots=True)
class RampResult:
    """What ever came up in an experiment.

    wrong: of WORDS. words: the verdicts on the experiment. found: the first look with the verdict `regressed`, as a share of the time;
    None: never. open_share: looks with an interval, as a share of all.
    """

    wrong: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    found: float | None = None
    open_share: float = 0.0


@dataclass(frozen=True, slots=True)
class RampRates:
    """Shares of experiments: by word that ever came up, with any of WORDS, by verdict, and with `regressed` before the last stage."""

    ever: Mapping[str, float]
    wrong: float
    verdicts: Mapping[str, float]
    early: float
    open_share: float


def ramp_rates(ramp: Ramp, experiments: int, seed: int, advance: Callable[[int], None], lift: float = 0.0) -> RampRates:
    """Judge experiments at every look."""
    ever, verdicts, wrong, early, opened = Counter[str](), Counter[str](), 0, 0, 0.0
    last_stage = (len(ramp.shares) - 1) / len(ramp.shares)
    for number in range(experiments):
        result = judge_ramp(ramp, np.random.default_rng((seed, number, round(1_000 * lift) + 1_000, *ramp.name.encode())), lift)
        ever.update(result.wrong)
        verdicts.update(result.words)
        wrong += bool(result.wrong)
        early += result.found is not None and result.found <= last_stage
        opened += result.open_share
        advance(1)
    shares = [{word: count / experiments for word, count in counts.items()} for counts in (ever, verdicts)]
    return RampRates(shares[0], wrong / experiments, shares[1], early / experiments, opened / experiments)


def judge_ramp(ramp: Ramp, random: np.random.Generator, lift: float = 0.0, policy: Policy | None = None) -> RampResult:
    """Draw one experiment, look RAMP_LOOKS times, and return what came up."""
    policy = policy or policy_of(ramp)
    result, scales, opened = RampResult(), dict[str, float](), 0
    for look, stored in enumerate(looks_of(ramp, *draw_ramp(ramp, random, lift)), 1):
        scales |= choose_scales(MEASURES, policy, stored, scales)
        report = build_report(MEASURES, policy, stored, scales)
        wrong, is_open = _wrong_words(report)
        result.wrong |= wrong
        result.words.add(report.verdict.word)
        opened += is_open
        if result.found is None and report.verdict.word == "regressed":
            result.found = look / RAMP_LOOKS
    result.open_share = opened / RAMP_LOOKS
    return result


def policy_of(ramp: Ramp, **rules: float) -> Policy:
    """Return the rules of a ramp: the defaults, with its stages and their shares, at margin 0."""
    length = SPAN_MS // len(ramp.shares)
    stages = tuple(
        Stage(name=str(number), shares={"control": 1 - share, "treatment": share}, start_ms=length * number if number else None)
        for number, share in enumerate(ramp.shares)
    )
    one = {"shares": stages[0].shares} if len(stages) == 1 else {"stages": stages}
    return Policy(**{"margin": 0.0, **rules}, unit="list" if ramp.by_list else "user", **one)  # type: ignore[arg-type]


def _wrong_words(report: ExperimentReport) -> tuple[set[str], bool]:
    deciding = [each for variant in report.variants for each in variant.measures if each.paging]
    verdicts = [report.verdict, *(each.verdict for each in report.variants), *(each.verdict for each in deciding)]
    wrong: set[str] = {each.word for each in verdicts if each and each.word in WORDS}
    bounds = [(each.lift_lower, each.lift_upper) for each in deciding]
    if any((low is not None and low > 0) or (high is not None and high < 0) for low, high in bounds):
        wrong.add("interval")
    return wrong, any(each.tau is not None for each in deciding)


def draw_ramp(ramp: Ramp, random: np.random.Generator, lift: float = 0.0) -> tuple[Ints, Ints, Floats, npt.NDArray[np.bool_]]:
    """Draw (user of each list, cell of each list, time of each list, clicks of each list: shape (lists, 10)).

    A cell is 2 x stage + (1 for the treatment). lift: how much more (or fewer) lists of the treatment have clicks.
    """
    count, stages = ramp.users, len(ramp.shares)
    starts = random.random(count) * (0.1 if ramp.early else 0.98)
    lists = random.geometric(1 / 5, count)
    taste = random.beta(1.2, 2, (count, stages))
    if ramp.strong:
        taste = random.beta(0.3, 0.5, (count, stages))
    if ramp.heavy:
        is_early = starts < 0.5
        lists = np.where(is_early, random.geometric(1 / 12, count), random.geometric(1 / 3, count))
        taste = np.where(is_early[:, None], random.beta(1, 4, (count, stages)), random.beta(3, 2, (count, stages)))
    if ramp.pareto:
        lists = np.minimum((random.pareto(ramp.pareto, count) * 3 + 1).astype(np.int64), 2_000)
    if ramp.hits:
        taste = np.minimum(random.gamma(0.3, 1, (count, stages)) * ramp.hits / 0.3, 1)
    if not ramp.own:
        taste = np.repeat(taste[:, :1], stages, axis=1)
    users = np.repeat(np.arange(count), lists)
    times = starts[users] + (1 - starts[users]) * random.random(len(users))
    stage = np.minimum((times * stages).astype(np.int64), stages - 1)
    first = np.full(count, 2.0)
    np.minimum.at(first, users, times)
    entry = np.minimum((first * stages).astype(np.int64), stages - 1)
    place = random.random(len(users)) if ramp.by_list else random.random((count, stages))[users, stage if ramp.redrawn else 0]
    arm = (place < np.array(ramp.shares)[entry[users] if ramp.sticky else stage]).astype(np.int64)
    taste = taste * np.where(entry > 0, 1 - ramp.later, 1.0)[:, None]
    chance = taste[users, stage] * np.where((stage == stages - 1) & (stages > 1), 1 - ramp.drift, 1.0)
    clicked = random.random(len(users)) < chance * np.where(arm == 1, 1 + min(lift, 0.0), 1.0)
    if lift > 0:  # some lists without a click get one
        clicked |= (arm == 1) & ~clicked & (random.random(len(users)) < lift * chance / np.maximum(1 - chance, lift))
    clicks = clicked[:, None] & (random.random((len(users), 10)) < 0.7 / np.arange(1, 11) ** 0.8)
    return users, 2 * stage + arm, times, clicks


def looks_of(ramp: Ramp, users: Ints, cells: Ints, times: Floats, clicks: npt.NDArray[np.bool_]) -> Iterator[Stored]:
    """Yield what is stored at each look, as sums of what each list changes."""
    order = np.lexsort((times, users))
    rows, owner = rows_of_lists(clicks)[order], users[order]
    look = np.minimum((times[order] * RAMP_LOOKS).astype(np.int64), RAMP_LOOKS - 1)
    first = np.concatenate([[True], owner[1:] != owner[:-1]])
    lengths = np.diff(np.append(np.flatnonzero(first), len(owner)))
    stage, arm = cells[order] // 2, cells[order] % 2
    entry = stage if ramp.by_list else np.repeat(stage[first], lengths)
    names = _cells(ramp)
    count, cell = len(names), 2 * _number(entry, stage, len(ramp.shares)) + arm
    before = [_totals_before(np.where((cell == one)[:, None], rows, 0), first, lengths) for one in range(count)]
    moments = np.zeros((RAMP_LOOKS, count, MEASURES.moments_width), dtype=np.int64)
    cross = dict[tuple[int, int], Ints]()
    changes = []
    for one in range(count):
        at = np.flatnonzero(cell == one)
        old, new = _user_rows(before[one][at]), _user_rows(before[one][at] + rows[at])
        left, right = MEASURES.pair_sides
        for pair, (i, j) in enumerate(zip(left, right, strict=True)):
            moments[:, one, pair] = _by_look(look[at], new[:, i] * new[:, j] - old[:, i] * old[:, j])
        changes.append((at, new - old))
    for one, other in combinations(range(count), 2):
        if not ramp.by_list and names[one].entry != names[other].entry:
            continue  # no user came in two stages
        sums = _crossed(changes[one], before[other], look, swap=False) + _crossed(changes[other], before[one], look, swap=True)
        if sums.any():
            cross[one, other] = sums.cumsum(axis=0)
    moments = moments.cumsum(axis=0)
    for number in range(RAMP_LOOKS):
        yield _stored(ramp, number, names, moments[number], {pair: sums[number] for pair, sums in cross.items()})


def _number(entry: Any, stage: Any, stages: int) -> Any:
    """The number of a stratum. There is one for each entry and stage from it on."""
    return entry * stages - entry * (entry - 1) // 2 + stage - entry


def _cells(ramp: Ramp) -> list[Cell]:
    """The cells of a ramp by number: twice that of the stratum, and one more for the treatment."""
    stages, length = range(len(ramp.shares)), SPAN_MS // len(ramp.shares)
    keys = [str(length * number) if number else "" for number in stages]
    strata = [(entry, stage) for entry in stages for stage in stages if entry <= stage]
    assert [_number(*each, len(keys)) for each in strata] == [*range(len(strata))]
    return [Cell(keys[entry], keys[stage], arm) for entry, stage in strata for arm in ARMS]


def rows_of_lists(clicks: npt.NDArray[np.bool_]) -> Ints:
    """Return [1, ndcg, hit, hits, places] of each list."""
    discounts = 1 / np.log2(np.arange(2, 12))
    hits = clicks.sum(axis=1)
    ndcg = np.rint(clicks @ discounts / np.concatenate([[1.0], np.cumsum(discounts)])[hits] * (1 << BITS))
    return np.column_stack([np.ones(len(clicks)), ndcg, hits > 0, hits, np.full(len(clicks), 10)]).astype(np.int64)


def _totals_before(rows: Ints, first: npt.NDArray[np.bool_], lengths: Ints) -> Ints:
    """Return the user's totals before each list. `rows` are ordered by user and time."""
    before = np.cumsum(rows, axis=0) - rows
    return before - np.repeat(before[first], lengths, axis=0)


def _user_rows(totals: Ints) -> Ints:
    """Return the rows of users [1, lists, *columns, 1 if hits else 0]; zeros for users without lists."""
    lists, ndcg, hit, hits, places = totals.T
    return np.column_stack([lists > 0, lists, ndcg, hit << BITS, hits, places, hit > 0]).astype(np.int64)


def _crossed(change: tuple[Ints, Ints], before: Ints, look: Ints, swap: bool) -> Ints:
    """Return what lists of one cell change in the cross moments with another one, by look. swap: the other cell comes first."""
    at, rows = change
    shared = before[at, 0] > 0
    at, rows, others = at[shared], rows[shared], _user_rows(before[at[shared]])
    sums = np.zeros((RAMP_LOOKS, CROSS.width), dtype=np.int64)
    if len(at):
        for pair, (i, j) in enumerate(CROSS.pairs):
            products = others[:, i] * rows[:, j] if swap else rows[:, i] * others[:, j]
            sums[:, pair] = _by_look(look[at], products)
    return sums


def _by_look(look: Ints, values: Ints) -> Ints:
    sums = np.zeros(RAMP_LOOKS, dtype=np.int64)
    np.add.at(sums, look, values)
    return sums


def _stored(ramp: Ramp, look: int, names: list[Cell], moments: Ints, cross: Mapping[tuple[int, int], Ints]) -> Stored:
    own = {name: _shifted(MEASURES.pairs, sums) for name, sums in zip(names, moments, strict=True) if sums[0]}
    shared = {}
    for (one, other), sums in cross.items():
        if sums.any():
            left, right = names[one], names[other]
            shifted = _shifted(CROSS.pairs, sums)
            shared[min(left, right), max(left, right)] = shifted if left < right else CROSS.swapped(shifted)
    whole: dict[str, list[int]] = {}
    for (*_, arm), moments_of_cell in own.items():
        whole[arm] = add(whole[arm], moments_of_cell) if arm in whole else moments_of_cell
    stages = []
    unit: ExperimentUnit = "list" if ramp.by_list else "user"
    for entry, key in sorted({name[:2] for name in own}):
        of_stage = {name.variant: sums for name, sums in own.items() if name[:2] == (entry, key)}
        counts = {arm: sums[0] for arm, sums in of_stage.items()}
        stages.append(StoredStage(entry=entry, key=key, unit=unit, moments=of_stage, first_exposures=counts))
    return Stored(
        experiment="ranker",
        scope="start",
        moments=whole,
        first_exposures={arm: sums[0] for arm, sums in whole.items()},
        multi_exposed_users=0,
        to_ms=SPAN_MS * (look + 1) // RAMP_LOOKS,
        stages=tuple(stages),
        pairs=shared,
    )


def _shifted(pairs: tuple[tuple[int, int], ...], sums: Ints) -> list[int]:
    """Return sums in the package's units."""
    return [int(value) << (40 - BITS) * ((one in _SCALED) + (other in _SCALED)) for value, (one, other) in zip(sums, pairs, strict=True)]
