"""Assessment metrics: what lists show, whatever users do. Exact integer sums per list, for the stream.

`windows/assessment.md` defines them. Only the first k places count. An item is known if the catalogue has it. The values
of a list are rounded half to even: to 2**-40, and those of novelty to 2**-32. The novelty of an item is rounded to 2**-32 before.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from streammetrics.metrics.names import ASSESSMENT_NAMES, Metric, MetricError, columns_of
from streammetrics.metrics.records import SUM_BITS, VALUE_BITS

USERS_MAX: Final = 1 << 53


class CatalogueItem(NamedTuple):
    """What is known of an item: the values of its attributes, how often it was used, and by how many users."""

    attributes: tuple[str, ...] = ()
    interactions: int = 0
    users: int = 0


class ItemCatalogue:
    """The items that lists may show. It never changes, so that what was added to a sum can be subtracted again.

    items: equally many attributes for each. users: all users of the time that the counts are about.

    Raises MetricError for an item with other attributes, or with a count below 0 or above the total.

    >>> ItemCatalogue({"a": CatalogueItem(("x",), 3, 2), "b": CatalogueItem(("y",), 1, 1)}, users=4).interactions
    4
    """

    def __init__(self, items: Mapping[str, CatalogueItem], users: int = 0) -> None:
        self.items, self.users = dict(items), users
        self.interactions = sum(item.interactions for item in self.items.values())
        self.attributes = len(next(iter(self.items.values())).attributes) if self.items else 0
        if not 0 <= users <= USERS_MAX:
            raise MetricError("users", f"got {users}; allowed are whole numbers from 0 to 2**53")
        for name, item in self.items.items():
            if len(item.attributes) != self.attributes:
                raise MetricError(
                    "attributes", f"got {len(item.attributes)} of item {name!r}; allowed are {self.attributes}, as of the first"
                )
            if item.interactions < 0 or item.users < 0 or (users and item.users > users):
                raise MetricError("item", f"got {item} for {name!r}; allowed are counts from 0, and users up to all users, {users}")

    def novelty(self, item: str) -> int:
        """Return log2(all users / users of the item) in units of 2**-SUM_BITS. An item without users counts as one of one user."""
        entry = self.items.get(item)
        return round(math.log2(self.users / max(entry.users if entry is not None else 1, 1)) * (1 << SUM_BITS))

    def digest(self) -> str:
        """Return a short text that differs between catalogues of other content. The order of items does not matter."""
        digest = hashlib.sha256(str(self.users).encode())
        for name in sorted(self.items):
            digest.update(json.dumps([name, *self.items[name]]).encode())
        return digest.hexdigest()[:16]


def rounded(top: int, bottom: int) -> int:
    """Return top / bottom, rounded half to even. `bottom` is above 0.

    >>> [rounded(top, 2) for top in (1, 2, 3, 5)]
    [0, 1, 2, 2]
    """
    whole, rest = divmod(top, bottom)
    return whole + (2 * rest > bottom or (2 * rest == bottom and whole % 2 == 1))


class AssessmentLayout:
    """The columns of some assessment metrics, in the order of the metrics.

    catalogue: needed to score lists, except for `fallback_share`. fallback: the name and the value of the segment that a list from a
    fallback has. Raises MetricError for a metric that is no assessment metric.

    >>> items = {"a": CatalogueItem(("x", "1")), "b": CatalogueItem(("x", "2"))}
    >>> layout = AssessmentLayout([Metric("diversity", 2), Metric("catalogue_share", 2)], ItemCatalogue(items))
    >>> row = layout.row(("a", "b", "c"), ())
    >>> [(name, top / bottom) for name, top, bottom in layout.ratios(row, 1)]
    [('diversity@2', 0.5), ('catalogue_share@2', 1.0)]
    """

    def __init__(self, metrics: Iterable[Metric], catalogue: ItemCatalogue | None = None, fallback: tuple[str, str] = ("", "")) -> None:
        self.metrics, self.fallback = tuple(metrics), fallback
        self.catalogue = ItemCatalogue({}) if catalogue is None else catalogue
        if others := [metric for metric in self.metrics if metric.name not in ASSESSMENT_NAMES]:
            raise MetricError("assessment metric", f"got {others[0]}; allowed are {', '.join(ASSESSMENT_NAMES)}")
        self.columns = tuple(column for metric in self.metrics for column in columns_of(metric))
        self._novelties: dict[str, int] = {}
        self._pairs = {
            "diversity": self._diversity,
            "novelty": self._novelty,
            "popularity_share": self._popularity_share,
            "catalogue_share": self._catalogue_share,
        }

    def describe(self) -> str:
        """Return all that the values depend on beside the metrics."""
        return f"assessment[catalogue={self.catalogue.digest()} fallback={'='.join(self.fallback)}]"

    def ratios(self, sums: Sequence[int], lists: int) -> Iterator[tuple[str, int, int]]:
        """Return the name of each metric with the two integers whose quotient it is, from the sums of its columns over lists."""
        for index, column in enumerate(self.columns):
            if column.kind == "sum":
                yield str(column.metric), sums[index], lists
            elif column.kind == "numerator":
                yield str(column.metric), sums[index], sums[index + 1] << column.scale_bits

    def row(self, items: Sequence[str], segments: Iterable[tuple[str, str]]) -> list[int]:
        """Return the columns of one list. An empty text among `items` is a place without an item."""
        row: list[int] = []
        for metric in self.metrics:
            if metric.name == "fallback_share":
                row.append(int(self.fallback in segments))
                continue
            listed = [item for item in items[: metric.k] if item]
            row += self._pairs[metric.name](listed) if listed else (0, 0)
        return row

    def _diversity(self, listed: Sequence[str]) -> tuple[int, int]:
        """An attribute with n equal values has n (n - 1) / 2 pairs that do not differ."""
        attributes = [self.catalogue.items[item].attributes for item in listed if item in self.catalogue.items]
        pairs = len(attributes) * (len(attributes) - 1) // 2
        if not pairs:
            return 0, len(attributes)
        equal = sum(count * (count - 1) // 2 for values in zip(*attributes, strict=True) for count in Counter(values).values())
        compared = pairs * self.catalogue.attributes
        return rounded((compared - equal) << VALUE_BITS, compared), 1

    def _novelty_of(self, item: str) -> int:
        if item not in self.catalogue.items:
            item = ""  # all unknown items are alike, and there is no end of them
        if item not in self._novelties:
            self._novelties[item] = self.catalogue.novelty(item)
        return self._novelties[item]

    def _novelty(self, listed: Sequence[str]) -> tuple[int, int]:
        return rounded(sum(map(self._novelty_of, listed)), len(listed)), 1

    def _popularity_share(self, listed: Sequence[str]) -> tuple[int, int]:
        used = sum(self.catalogue.items[item].interactions for item in listed if item in self.catalogue.items)
        return rounded(used << VALUE_BITS, len(listed) * self.catalogue.interactions), 1

    def _catalogue_share(self, listed: Sequence[str]) -> tuple[int, int]:
        return sum(item in self.catalogue.items for item in listed), len(listed)
