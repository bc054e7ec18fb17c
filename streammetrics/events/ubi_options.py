"""Options of the UBI decoder, and the reserved item id. Values only."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

NO_ITEM: Final = "-"
"""The item of a feedback without one. The decoder rejects lists that show this item, so it never matches."""


class UbiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the UBI decoder.

    `lists_from`: lists come from item-level impression events, or from the hit ids of query documents. `user_field`: the field with the
    user. `segments`: fields that become segments of the same name. `experiment_from`: a field with an object experiment -> variant, or
    with a variant of the experiment named like the field. `value_from`: a field with the number that becomes a feedback's value (such
    as `dwell_time`). `exposure`: the action of an event that shows an item. `empty_lists`: a query without hits is an empty list.
    `page_start`: the field with the number of items on earlier pages; a query_id may then have several pages, which are parts of its list.
    """

    lists_from: Literal["impressions", "hit_ids"] = "impressions"
    user_field: Literal["client_id", "session_id", "user_id"] = "client_id"
    segments: tuple[str, ...] = ("application",)
    experiment_from: str | None = None
    value_from: str | None = None
    exposure: str = "impression"
    empty_lists: bool = False
    page_start: str | None = None
