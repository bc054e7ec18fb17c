"""Assigns users to variants, by hashes that are the same in every process, and writes their exposures. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import msgspec

from streammetrics.connectors.simulated.traffic import Traffic, Variant
from streammetrics.experiments.interleaving import INTERLEAVED


def variant_of(traffic: Traffic, user_id: str, ts: int | None = None) -> Variant | None:
    """Return the variant of a user, by a hash of seed, experiment and user; None if the user is in no experiment.

    `ts` is the time of the list (ms), for traffic with a ramp; None: before it.

    >>> variant_of(Traffic(seed=3), "u12").name
    'control'
    """
    place = digest(f"{traffic.seed}/{traffic.experiment}/{user_id}") / 2**64
    begun = () if ts is None else [ramp for ramp in traffic.ramps if ts >= traffic.start_ms + ramp.after_ms]
    moved = begun[-1].share - traffic.variants[1].share if begun else 0.0
    for number, variant in enumerate(traffic.variants):
        place -= variant.share + (-moved if number == 0 else moved if number == 1 else 0.0)
        if place < 0:
            return variant
    return None


def label_of(traffic: Traffic, variant: Variant) -> str:
    """Return the name of the variant that users of a variant are in: all are in one if their lists are interleaved."""
    return INTERLEAVED if traffic.interleaved else variant.name


def digest(text: str) -> int:
    """Return 64 uniform bits for a text, the same in every process. The built-in hash differs between processes."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


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
