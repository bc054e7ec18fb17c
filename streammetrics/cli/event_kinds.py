"""What `decode` and `doctor` call the kinds of events when they count them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streammetrics.events import Event, Exposure, Feedback, Impression

KIND_NAMES: Final[Mapping[type[Event], str]] = {Impression: "lists", Feedback: "feedback", Exposure: "exposures"}
