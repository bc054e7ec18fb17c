"""Settings of an experiment that would settle a finding, as values. Who builds a policy says how they are written: see `Policy`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

ProposedValue: TypeAlias = str | int | Mapping[str, float]
"""A name, a time (epoch ms), or shares."""


class SettingsText(Protocol):
    """How settings of an experiment are written."""

    def __call__(self, experiment: str, settings: Mapping[str, ProposedValue]) -> str:
        """Return the text that names the place and the settings."""


def settings_named(experiment: str, settings: Mapping[str, ProposedValue]) -> str:
    """Name the settings without their values.

    >>> settings_named("ranker", {"start": 1_732_183_200_000, "end": 1_732_186_800_000})
    'start and end of ranker'
    """
    return f"{' and '.join(settings)} of {experiment}"
