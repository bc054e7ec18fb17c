"""What `decode` and `doctor` call the kinds of events when they count them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streammetrics.events import Event, Exposure, Feedback, Impression

KIND_NAMES: Final[Mapping[type[Event], str]] = {Impression: "lists", Feedback: "feedback", Exposure: "exposures"}


def counted_kind(count: int, kind: str) -> str:
    """Return a count with a kind, or with another outcome of a record.

    >>> counted_kind(1, "lists"), counted_kind(1_200, "exposures"), counted_kind(1, "feedback"), counted_kind(1, "refused")
    ('1 list', '1,200 exposures', '1 feedback', '1 refused')
    """
    return f"{count:,} {kind.removesuffix('s') if count == 1 else kind}"
