"""What a user did with one list, and where the list stands in its session: what engagement metrics need beyond grades. Pure.

Only feedback with a grade above 0 counts. Everything here is a function of the session's events, not of their order.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from streammetrics.metrics.engagement import VALUE_MAX
from streammetrics.metrics.records import PURCHASE_BITS


class Engagement(NamedTuple):
    """What a user did with one list.

    first: time (ms) and 0-based position of the first click: the earliest feedback, at the least position if several have that time.
    purchases: position and value (in units of 2**-PURCHASE_BITS) of each purchased item, by position.
    opens: whether the list is the first of its session, by (time, id).
    followed: whether the next list of the session came soon after (see `EngagementRules`).
    """

    first: tuple[int, int] | None
    purchases: tuple[tuple[int, int], ...]
    opens: bool
    followed: bool

    def with_feedback(self, ts: int, position: int, purchase: int | None) -> Engagement:
        """Add one feedback on the item at a position. `purchase` is the value of a purchase, None for any other feedback.

        Of several purchases of one item, the one of the greatest value counts.

        >>> once = NEW_LIST.with_feedback(7, 2, 500)
        >>> once.with_feedback(5, 0, None).with_feedback(9, 2, 300)
        Engagement(first=(5, 0), purchases=((2, 500),), opens=True, followed=False)
        """
        at = ts, position
        first, purchases = self.first, self.purchases
        if first is None or at < first:
            first = at
        if purchase is not None:
            values = dict(purchases)
            if purchase > values.get(position, -1):
                values[position] = purchase
                purchases = tuple(sorted(values.items()))
        return self if first is self.first and purchases is self.purchases else Engagement(first, purchases, self.opens, self.followed)

    def linked(self, opens: bool, followed: bool) -> Engagement:
        """Return the same with another place in the session."""
        return self if (opens, followed) == (self.opens, self.followed) else Engagement(self.first, self.purchases, opens, followed)


NEW_LIST: Final = Engagement(None, (), True, False)
"""A list without feedback that is alone in its session."""


def value_units(value: float | None) -> int:
    """Return the value of a purchase in units of 2**-PURCHASE_BITS, half to even. 0 for no value and for one outside 0 to VALUE_MAX.

    >>> value_units(1.5), value_units(None), value_units(-1.0), value_units(float("nan"))
    (98304, 0, 0, 0)
    """
    return round(value * (1 << PURCHASE_BITS)) if value is not None and 0 <= value <= VALUE_MAX else 0
