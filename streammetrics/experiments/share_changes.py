"""Did a treatment's share of the new users change over time? A test that is valid at every look. Counts in, segments out. Pure.

A user who arrives has the treatment with probability p. When users arrive may follow any pattern, such as day and night. Let c and t be
the arrivals of the control and of the treatment in a block of time. A segment with k and m arrivals in all has the probability
(Krichevsky, Trofimov 1981, "The performance of universal encoding")

    KT(k, m) = Gamma(k + 1/2) Gamma(m + 1/2) / (pi Gamma(k + m + 1))

if its own p is unknown. A new segment begins at the j-th block that has arrivals, j >= 2, with probability 1 / (2 j) (a switching prior:
Herbster, Warmuth 1998, "Tracking the best expert"; Koolen, de Rooij 2013, "Universal codes from switching strategies"). With T and C
arrivals of all blocks,

    Q = sum over all segmentations of prior * product of KT(k, m) over segments
    P = maximum over p of p**T (1 - p)**C = (T / (T + C))**T (C / (T + C))**C
    E = Q / P

If p never changes, E is at most Q / (p**T (1 - p)**C). That is a martingale that starts at 1, so E ever reaches 1/alpha with a probability
of at most alpha (Ville's inequality; Wasserman, Ramdas, Balakrishnan 2020, "Universal inference"). KT does not depend on the order of
arrivals, so the latest block may be partly full.

The work grows with the square of the blocks, so there are at most `BLOCKS_TESTED`. Blocks of doubled length begin another test: after j
doublings the level is 2**j / alpha, so the error of all together is at most 2 alpha. The times of a change that is found are still told by
the shortest blocks.

**Users who are assigned together**, such as households, arrive in groups. Then counts vary more, by a factor phi. When E reaches its level,
phi is estimated from neighbouring blocks, the counts are divided by it, and E has to reach the level again. This step is a heuristic. It
can only make the test slower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streammetrics.experiments.arrivals import HOUR_MS, Arrivals

ALPHA: Final = 0.05
"""Probability that a treatment whose share is constant ever loses its verdict. 4,000 simulated experiments had no such case."""

BLOCKS_TESTED: Final = 256
"""Blocks of one test at most. It takes about 5 ms then."""

USERS_IN_GROUP_MIN: Final = 5
"""Arrivals of the smaller arm that are expected in each group of neighbouring blocks when phi is estimated."""
GROUPS_MIN: Final = 9
PHI_WITH_FEW_GROUPS: Final = 3.0
"""phi with fewer than GROUPS_MIN groups."""
_MEDIAN_OF_CHI_SQUARE: Final = 0.455
"""The median of a chi-square distribution with one degree of freedom."""

_Floats: TypeAlias = NDArray[np.float64]
_Counts: TypeAlias = NDArray[np.int64]


class HourBlock(NamedTuple):
    """A block of time: its number, and the arrivals of the control and of the treatment in it. One of them is above 0."""

    number: int
    control: int
    treatment: int


class ShareSegment(NamedTuple):
    """A span of time with one share: its start and end (epoch ms), and the arrivals of the control and of the treatment."""

    start_ms: int
    end_ms: int
    control: int
    treatment: int

    @property
    def share(self) -> float:
        """The treatment's share of the arrivals of both arms."""
        return self.treatment / (self.control + self.treatment)


@dataclass(frozen=True, slots=True)
class ShareChange:
    """A treatment's share that changed for certain. `segments`: the most probable ones, two or more. `evidence`: ln E."""

    segments: tuple[ShareSegment, ...]
    evidence: float

    @property
    def unlike_share(self) -> float:
        """The least share of an arm's users that would have to come in another segment so that both arms have users of the same times.

        >>> ShareChange((ShareSegment(0, 1, 900, 100), ShareSegment(1, 2, 100, 100)), 9.9).unlike_share
        0.4
        """
        control, treatment = (sum(each[place] for each in self.segments) for place in (2, 3))
        return sum(abs(each.control / control - each.treatment / treatment) for each in self.segments) / 2


def share_change(arrivals: Arrivals, control: str, treatment: str, tests: int = 1) -> ShareChange | None:
    """Return how the treatment's share changed; None if no change is certain, or if one of both has no arrivals.

    tests: the number of such tests that share the error, such as the stages of a rollout.

    >>> steady = {"control": {hour: 50 for hour in range(20)}}
    >>> share_change(Arrivals.of(steady | {"new": {hour: 50 for hour in range(20)}}), "control", "new") is None
    True
    >>> found = share_change(Arrivals.of(steady | {"new": {hour: 5 if hour < 8 else 50 for hour in range(20)}}), "control", "new")
    >>> [(each.start_ms // 3_600_000, round(each.share, 2)) for each in found.segments]
    [(0, 0.09), (8, 0.5)]
    """
    of_control, of_treatment = arrivals.counts.get(control, {}), arrivals.counts.get(treatment, {})
    if not (of_control and of_treatment):
        return None
    numbers = sorted({*of_control, *of_treatment})
    blocks = tuple(HourBlock(number, of_control.get(number, 0), of_treatment.get(number, 0)) for number in numbers)
    found = _certain_change(blocks, math.log(tests * arrivals.block_ms / HOUR_MS / ALPHA))
    return None if found is None else ShareChange(_in_time(found[0], arrivals.block_ms), found[1])


@lru_cache(maxsize=256)  # reports are built more often than users arrive in a quiet experiment
def _certain_change(blocks: tuple[HourBlock, ...], level: float) -> tuple[tuple[tuple[HourBlock, ...], ...], float] | None:
    """Return the segments, each its blocks, and ln E; None below the level."""
    tested = blocks
    while len(tested) > BLOCKS_TESTED:
        tested, level = _in_pairs(tested), level + math.log(2)
    counts = _counts(tested)
    found = log_evidence(*counts)
    if found < level:
        return None
    phi = dispersion(*counts)
    if phi > 1:
        found = log_evidence(*(_divided(each, phi) for each in counts))
    starts = [*segment_starts(*_counts(blocks)), len(blocks)]
    if found < level or len(starts) < 3:
        return None
    return tuple(blocks[start:end] for start, end in pairwise(starts)), found


def _in_pairs(blocks: Sequence[HourBlock]) -> tuple[HourBlock, ...]:
    """Return the same arrivals in blocks of twice the length."""
    joined = dict[int, HourBlock]()
    for number, control, treatment in blocks:
        known = joined.get(number // 2, HourBlock(number // 2, 0, 0))
        joined[number // 2] = HourBlock(number // 2, known.control + control, known.treatment + treatment)
    return tuple(joined.values())


def _counts(blocks: Sequence[HourBlock]) -> tuple[_Counts, _Counts]:
    control, treatment = np.array([each[1:] for each in blocks], dtype=np.int64).T
    return control, treatment


def _in_time(segments: Sequence[Sequence[HourBlock]], block_ms: int) -> tuple[ShareSegment, ...]:
    starts = [each[0].number for each in segments]
    ends = [*starts[1:], segments[-1][-1].number + 1]
    return tuple(
        ShareSegment(start * block_ms, end * block_ms, sum(each.control for each in blocks), sum(each.treatment for each in blocks))
        for start, end, blocks in zip(starts, ends, segments, strict=True)
    )


def log_evidence(control: _Counts, treatment: _Counts) -> float:
    """Return ln E of arrivals by block.

    >>> round(log_evidence(np.array([1, 0]), np.array([0, 1])), 6) == round(math.log((1 / 4 * 1 / 4 + 3 / 4 * 1 / 8) * 4), 6)
    True
    """
    logs = [0.0]
    for code in _segment_codes(control, treatment):
        weights = np.array(logs) + _log_prior(len(code)) + code
        highest = weights.max()
        logs.append(float(highest + math.log(np.exp(weights - highest).sum())))
    whole = int(control.sum()), int(treatment.sum())
    return logs[-1] - sum(count * math.log(count / sum(whole)) for count in whole if count)


def segment_starts(control: _Counts, treatment: _Counts) -> list[int]:
    """Return the first block of each segment of the most probable segmentation (Viterbi's algorithm)."""
    logs, chosen = [0.0], list[int]()
    for code in _segment_codes(control, treatment):
        weights = np.array(logs) + _log_prior(len(code)) + code
        chosen.append(int(weights.argmax()))
        logs.append(float(weights[chosen[-1]]))
    starts, end = list[int](), len(chosen)
    while end > 0:
        end = chosen[end - 1]
        starts.append(end)
    return starts[::-1]


def _segment_codes(control: _Counts, treatment: _Counts) -> list[_Floats]:
    """Return ln KT of all segments: by last block, an array over the first block."""
    ends, starts = np.tril_indices(len(control))
    k, m = (np.concatenate(([0], counts.cumsum())) for counts in (control, treatment))
    codes = _log_kt(k[ends + 1] - k[starts], m[ends + 1] - m[starts])
    bounds = np.arange(1, len(control)).cumsum()
    return np.split(codes, bounds)


@lru_cache(maxsize=2_048)
def _log_prior(blocks: int) -> _Floats:
    """Return, by first block of the last segment, the ln of the probability that a segment begins there and none after it."""
    begins = 1 / (2 * np.arange(1, blocks + 1))
    begins[0] = 1.0
    none = np.concatenate(([0.0], np.log1p(-begins[1:]).cumsum()))
    prior: _Floats = np.log(begins) + none[-1] - none
    prior.setflags(write=False)
    return prior


def _log_kt(k: _Counts, m: _Counts) -> _Floats:
    return _log_gamma(k + 0.5) + _log_gamma(m + 0.5) - _log_gamma(k + m + 1.0) - math.log(math.pi)


def _log_gamma(x: Any) -> _Floats:
    """Return ln Gamma(x) of an array, x >= 1/2, by Stirling's series at x + 8. Its relative error is below 1e-13."""
    y = x + 8.0
    inverse = 1 / (y * y)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / y
    product = x * (x + 1) * (x + 2) * (x + 3) * (x + 4) * (x + 5) * (x + 6) * (x + 7)
    found: _Floats = (y - 0.5) * np.log(y) - y + 0.5 * math.log(2 * math.pi) + series - np.log(product)
    return found


def dispersion(control: _Counts, treatment: _Counts) -> float:
    """Return phi: how many times more the treatment's share varies between neighbouring blocks than with independent users, at least 1.

    Blocks are put together until each group has enough users. phi comes from the median of squared differences, so a few real changes do
    not matter, with room for the error of the median.

    >>> steady = np.full(40, 20)
    >>> dispersion(steady, steady), round(dispersion(steady, steady + np.array([8, -8] * 20)), 1)
    (1.0, 9.7)
    """
    whole = control.sum(), treatment.sum()
    needed = USERS_IN_GROUP_MIN * sum(whole) / max(min(whole), 1)
    groups, own = list[tuple[int, int]](), (0, 0)
    for counts in zip(control.tolist(), treatment.tolist(), strict=True):
        own = own[0] + counts[0], own[1] + counts[1]
        if sum(own) >= needed:
            groups.append(own)
            own = 0, 0
    if len(groups) < GROUPS_MIN:
        return PHI_WITH_FEW_GROUPS
    users = np.array(groups).sum(axis=1)
    treated = np.array(groups)[:, 1]
    pooled = np.clip((treated[1:] + treated[:-1]) / (users[1:] + users[:-1]), 1e-9, 1 - 1e-9)
    squares = np.diff(treated / users) ** 2 / (pooled * (1 - pooled) * (1 / users[1:] + 1 / users[:-1]))
    return max(1.0, float(np.median(squares)) / _MEDIAN_OF_CHI_SQUARE * (1 + 2 / math.sqrt(len(squares))))


def _divided(counts: _Counts, phi: float) -> _Counts:
    """Return counts by block divided by phi, rounded so that their sums stay right."""
    cumulated = np.rint(np.concatenate(([0], counts.cumsum())) / phi).astype(np.int64)
    divided: _Counts = cumulated[1:] - cumulated[:-1]
    return divided
