"""How a UBI stream is read: what the operator chooses, and the one name that is reserved. Values only."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

NO_ITEM: Final = "-"
"""The item of a feedback that names none. No list from this decoder may show an item of that name, so it is never matched."""


class UbiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a UBI stream is read.

    `lists_from`: lists are the item-level impression events, or the hit ids of the query documents. `user_field`: the
    field whose value is the user. `segments`: fields whose text becomes a segment of the same name. `experiment_from`: a
    field with an object experiment -> variant, or with the text of a variant of the experiment named like the field.
    `value_from`: a field with the number that becomes a feedback's value (such as `dwell_time`).
    """

    lists_from: Literal["impressions", "hit_ids"] = "impressions"
    user_field: Literal["client_id", "session_id", "user_id"] = "client_id"
    segments: tuple[str, ...] = ("application",)
    experiment_from: str | None = None
    value_from: str | None = None
