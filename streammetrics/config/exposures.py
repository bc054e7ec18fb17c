"""Settings of exposures: events that say which variant a user was given. Lists then need no labels of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from streammetrics.config.fields import Conflict, Listed, Section, Text, Whole, milliseconds, setting, whole
from streammetrics.events.event_time import DAY_MS
from streammetrics.sessions.rules import ExposureRules

_RULES = ExposureRules()


class ExposureSettings(Section):
    enabled: bool = setting(
        False,
        "Whether exposures are joined to lists. On: a list gets the variant of its user's latest exposure to each experiment that it has"
        " no variant of, and live numbers end join.lateness_ms before the watermark. Off: exposures are refused.",
    )
    experiments: Annotated[Listed[Text], Field(max_length=1_000)] = setting(
        (),
        "The experiments whose exposures are read, such as the keys of feature flags. All others are ignored and counted. Empty: all.",
        "a list of distinct names",
    )
    validity_ms: Whole = milliseconds(
        _RULES.validity_ms, "How long after an exposure lists get its variant, inclusive. Longer times keep more users in the store."
    )
    user_exposures_max: Whole = whole(
        _RULES.kept_max,
        "Maximum exposures that are kept of a user: those that may still matter. Further ones are refused and counted.",
        1,
        1_000_000,
    )

    def rules(self, experiments_max: int) -> ExposureRules | None:
        """Return the rules of the join; None if exposures are off."""
        return ExposureRules(self.validity_ms, self.user_exposures_max, experiments_max) if self.enabled else None

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings of this section that contradict each other."""
        if self.enabled and self.validity_ms > 366 * DAY_MS:
            yield Conflict(("exposures.validity_ms",), "must be at most 366 days")
