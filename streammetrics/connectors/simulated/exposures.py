"""Exposures of simulated traffic: what tells which variant a user was given, if lists carry no labels. Pure.

They take no draw, so lists and feedback are the same with and without them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from streammetrics.connectors.simulated.assignment import digest, label_of, variant_of
from streammetrics.connectors.simulated.traffic import Traffic

EXPOSURE_LEAD_MS = 2_000
"""An exposure is at most so long before its list."""

LEFT_SHARE = 0.05
"""Users who are exposed and leave before their first list, as a share of visits."""


class WrittenExposure(msgspec.Struct, tag_field="type", tag="exposure", gc=False):
    """An exposure, as written to JSON."""

    user_id: str
    ts: int
    experiment: str
    variant: str


def exposures_before(traffic: Traffic, visit: int, place: int, user_id: str, ts: int) -> Iterator[WrittenExposure]:
    """Return the exposure of a user in an experiment before a list at `ts`, and beside some visits that of a user who leaves.

    Its variant is that of the list: after a ramp, no exposure before a list is dated before the ramp.
    """
    chance = digest(f"{traffic.seed}/exposure/{visit}-{place}")
    exposed_ms = max(ts - 1 - chance % EXPOSURE_LEAD_MS, traffic.start_ms)
    begun_ms = [start_ms for ramp in traffic.ramps if (start_ms := traffic.start_ms + ramp.after_ms) <= ts]
    exposed_ms = max([exposed_ms, *begun_ms])
    yield from _exposed(traffic, user_id, exposed_ms)
    if place == 0 and (chance >> 32) / 2**32 < LEFT_SHARE:
        yield from _exposed(traffic, f"u{traffic.users + visit}", exposed_ms)


def _exposed(traffic: Traffic, user_id: str, ts: int) -> Iterator[WrittenExposure]:
    variant = variant_of(traffic, user_id, ts)
    if variant is not None:
        yield WrittenExposure(user_id, ts, traffic.experiment, label_of(traffic, variant))
