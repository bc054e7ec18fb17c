"""The frozen scales of experiments: their names and their stored form in the values of a namespace."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from streammetrics.state.codec import VERSION, encode_json, plain_json, reader

SCALES: Final = "scales "

_read = reader(msgspec.json.Decoder(tuple[int, int, dict[str, float]]).decode, plain_json, "an experiment's scales")


class Scales(NamedTuple):
    """The frozen scales of an experiment by measure, and the last time (ms) to which its run was known to last."""

    until: int
    by_measure: dict[str, float]


def encode_scales(scales: Scales) -> bytes:
    return encode_json((VERSION, *scales))


def decode_scales(stored: bytes) -> Scales:
    _, until, by_measure = _read(stored)
    return Scales(until, by_measure)


def scales_name(experiment: str) -> str:
    """Return the name of an experiment's scales in the store.

    >>> experiment_of_scales(scales_name("ranker-v7")), experiment_of_scales("something else")
    ('ranker-v7', None)
    """
    return f"{SCALES}{experiment}"


def experiment_of_scales(name: str) -> str | None:
    """Return the experiment whose scales have this name. None if the name is of something else."""
    return name.removeprefix(SCALES) if name.startswith(SCALES) else None
