"""Two arms compared in cells of hour and entry, by brute force from raw lists, in fractions. One measure, each list with (y, d)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeAlias

CHAIN = (1, 2, 4, 8, 24, 48, 96, 192, 384, 768)
Block: TypeAlias = tuple[int, int, str]
"""Length of a block in hours, its number since the epoch, and the stratum; "" without strata."""
Came: TypeAlias = int | tuple[int, str]
"""The hour of a user's first list, in any variant; with strata, and the stratum of that list."""


class RawList(NamedTuple):
    """A list of a user: the hour since the epoch, its variant, what it adds to a measure's numerator and denominator, and its stratum."""

    user: str
    hour: int
    variant: str
    y: int
    d: int = 1
    stratum: str = ""


class ArmResult(NamedTuple):
    mean: Fraction
    variance: Fraction
    users: int
    effective_users: Fraction


class PairResult(NamedTuple):
    treatment: ArmResult
    control: ArmResult
    covariance: Fraction
    weight: Fraction


def wider(block: Block, hours: int) -> Block:
    return block if block[0] >= hours else (hours, block[0] * block[1] // hours, block[2])


def length_of(numbers: set[int]) -> int:
    """Return the least length at which these hours are in at most 96 blocks."""
    return next(length for length in CHAIN if len({hour // length for hour in numbers}) <= 96)


def came(lists: Sequence[RawList]) -> dict[str, Came]:
    """Return when each user came."""
    first: dict[str, RawList] = {}
    for impression in sorted(lists, key=lambda one: one.hour):
        first.setdefault(impression.user, impression)
    return {
        user: (entry_place.hour, entry_place.stratum) if entry_place.stratum else entry_place.hour for user, entry_place in first.items()
    }


def first_entry(first: Came) -> Block:
    """Return the entry of a user at the first list."""
    hour, stratum = first if isinstance(first, tuple) else (first, "")
    return wider((1, hour, stratum), 24 if stratum else 1)


def entry(first: Came, hour: int, length: int) -> Block:
    age = hour - (first[0] if isinstance(first, tuple) else first)
    kind = 1 if age < 8 else 8 if age < 48 else 24 if age < 192 else 192
    least = 1 if length < 8 else 8 if length < 24 else 24 if length < 192 else 192
    return wider(first_entry(first), max(kind, least))


def hour_rows(lists: Sequence[RawList]) -> dict[tuple[int, str, Block], tuple[int, int, int]]:
    """Return lists, y and d by block, variant and entry."""
    first, length = came(lists), length_of({impression.hour for impression in lists})
    rows: dict[tuple[int, str, Block], tuple[int, int, int]] = {}
    for impression in lists:
        key = impression.hour // length, impression.variant, entry(first[impression.user], impression.hour, length)
        count, y, d = rows.get(key, (0, 0, 0))
        rows[key] = count + 1, y + impression.y, d + impression.d
    return rows


def compare(
    lists: Sequence[RawList],
    treatment: str,
    control: str,
    *,
    by_entry: bool = True,
    silent: Sequence[tuple[int, int]] = (),
    within: tuple[int, int] | None = None,
) -> PairResult | None:
    """Return both arms. `silent`: hours that are left out, from the first on and before the end. `within`: only these hours count."""
    length = length_of({impression.hour for impression in lists})
    in_use = [
        impression
        for impression in lists
        if impression.variant in (treatment, control)
        and not any(start <= impression.hour // length * length < end for start, end in silent)
    ]
    entries = _entries(in_use, came(lists), length, by_entry)
    if within is not None:
        numbers = [number for number, row in enumerate(in_use) if within[0] <= row.hour < within[1]]
        in_use, entries = [in_use[number] for number in numbers], [entries[number] for number in numbers]
    cells = _cells(in_use, entries, length, by_entry)
    weight, tops, parts = _weights(in_use, cells, (treatment, control))
    if not weight:
        return None
    arms = [impression for impression in lists if impression.variant in (treatment, control)]
    days = _Days(arms, came(lists))
    results = []
    for arm, other in ((treatment, control), (control, treatment)):
        own_variance = both_variance = effective = Fraction(0)
        for day in days.of(arm):
            squared = sum(
                part**2 * row.d * days.share(arm, block, day)
                for row, part, block in zip(in_use, parts, entries, strict=True)
                if row.variant == arm
            )
            own_variance += days.spread([arm], day) * squared
            both_variance += days.spread([arm, other], day) * squared
            users_of_arm = days.users(arm, day)
            effective += Fraction(sum(d * d for _, d in users_of_arm), sum(d for _, d in users_of_arm)) * squared
        is_smaller = len(days.totals[arm]) < len(days.totals[other])
        variance = max(own_variance, both_variance) if is_smaller else own_variance
        effective_users = weight**2 / effective if effective else Fraction(0)
        results.append(ArmResult(tops[arm] / weight, variance / weight**2, len(days.totals[arm]), effective_users))
    return PairResult(results[0], results[1], days.covariance(treatment, control), weight)


def _entries(in_use: Sequence[RawList], first: Mapping[str, Came], length: int, by_entry: bool) -> list[Block]:
    """Return the entry of each list. Those of one length and day are joined until they have 40 lists: all have the first one's name."""
    entries = [entry(first[row.user], row.hour, length) for row in in_use]
    names = {block: block for block in entries}
    for hours, day in {(block[0], wider(block, 24)) for block in entries if block[0] < 24} if by_entry else ():
        group, count = None, 0
        for block in sorted(block for block in names if block[0] == hours and wider(block, 24) == day):
            group, count = (group, count) if group is not None and count < 40 else (block, 0)
            names[block], count = group, count + entries.count(block)
    return [names[block] for block in entries]


def _cells(in_use: Sequence[RawList], entries: Sequence[Block], length: int, by_entry: bool) -> list[tuple[Block | str, int]]:
    """Return the cell of each list: its entry if entries are apart, otherwise its stratum; and a number."""
    cells: dict[int, tuple[Block | str, int]] = {}
    sequences: Collection[Block | str] = set(entries) if by_entry else {block[2] for block in entries}
    for sequence in sequences:
        numbers = [number for number, block in enumerate(entries) if sequence in (block, block[2])]
        cell = count = 0
        for step in sorted({in_use[number].hour // length for number in numbers}):
            cell, count = (cell + 1, 0) if count >= 40 else (cell, count)
            numbers_of_step = [number for number in numbers if in_use[number].hour // length == step]
            cells |= dict.fromkeys(numbers_of_step, (sequence, cell))
            count += len(numbers_of_step)
    return [cells[number] for number in range(len(in_use))]


def _weights(
    in_use: Sequence[RawList], cells: Sequence[tuple[Block | str, int]], arms: tuple[str, str]
) -> tuple[Fraction, dict[str, Fraction], list[Fraction]]:
    """Return the weight of all cells, the weighted sum of each arm, and the part of each list."""
    weight, tops, parts = Fraction(0), dict.fromkeys(arms, Fraction(0)), dict.fromkeys(range(len(in_use)), Fraction(0))
    for cell in set(cells):
        numbers_by_arm = {
            arm: [number for number, row in enumerate(in_use) if cells[number] == cell and row.variant == arm] for arm in arms
        }
        d = {arm: sum(in_use[number].d for number in numbers) for arm, numbers in numbers_by_arm.items()}
        if all(d.values()):
            w = Fraction(d[arms[0]] * d[arms[1]], sum(d.values()))
            weight += w
            for arm, numbers in numbers_by_arm.items():
                tops[arm] += w * Fraction(sum(in_use[number].y for number in numbers), d[arm])
                parts |= dict.fromkeys(numbers, w / d[arm])
    return weight, tops, list(parts.values())


class _Days:
    """The users of each arm and day of entry."""

    def __init__(self, lists: Sequence[RawList], first: Mapping[str, Came]) -> None:
        self.day_of = {user: wider(first_entry(of_user), 24) for user, of_user in first.items()}
        self.totals: dict[str, dict[str, tuple[int, int]]] = {}
        for impression in lists:
            y, d = self.totals.setdefault(impression.variant, {}).get(impression.user, (0, 0))
            self.totals[impression.variant][impression.user] = y + impression.y, d + impression.d

    def users(self, arm: str, day: Block | None = None) -> list[tuple[int, int]]:
        return [sums for user, sums in self.totals.get(arm, {}).items() if day in (None, self.day_of[user])]

    def of(self, arm: str) -> set[Block]:
        return {day for day in self.day_of.values() if sum(d for _, d in self.users(arm, day))}

    def share(self, arm: str, block: Block, day: Block) -> Fraction:
        """Return the part of a list of an entry that is of a day: by the lists of the days in the entry."""
        within = [cell for cell in self.of(arm) if wider(block, 24) == cell or wider(cell, block[0]) == block]
        lists = {cell: sum(d for _, d in self.users(arm, cell)) for cell in within}
        return Fraction(lists.get(day, 0), sum(lists.values())) if lists else Fraction(0)

    def mean(self, users: Sequence[tuple[int, int]]) -> Fraction:
        return Fraction(sum(y for y, _ in users), sum(d for _, d in users))

    def squares(self, arm: str, day: Block) -> Fraction:
        users = self.users(arm, day)
        few = len(users) < 10
        m = self.mean(self.users(arm) if few else users)
        return sum(((y - m * d) ** 2 for y, d in users), Fraction(0)) * (1 if few else Fraction(len(users), len(users) - 1))

    def spread(self, arms: Sequence[str], day: Block) -> Fraction:
        """Return U / D of the users of some arms together."""
        arms_of_block = [arm for arm in arms if day in self.of(arm)]
        return sum((self.squares(arm, day) for arm in arms_of_block), Fraction(0)) / sum(
            d for arm in arms_of_block for _, d in self.users(arm, day)
        )

    def covariance(self, one: str, other: str) -> Fraction:
        m, n = (self.mean(self.users(name)) for name in (one, other))
        ours, theirs = self.totals[one], self.totals[other]
        both = ((*ours[user], *theirs[user]) for user in ours if user in theirs)
        lists = [sum(d for _, d in users_of_arm.values()) for users_of_arm in (ours, theirs)]
        return sum(((y - m * d) * (x - n * e) for y, d, x, e in both), Fraction(0)) / (lists[0] * lists[1])
