"""Assigns users to variants, by hashes that are the same in every process. Pure."""

from __future__ import annotations

from hashlib import blake2b

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
