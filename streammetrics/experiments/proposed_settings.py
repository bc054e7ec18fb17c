"""Settings of an experiment that would settle a finding, as values. Who builds a policy says how they are written: see `Policy`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from streammetrics.experiments.stages import Stage

ProposedValue: TypeAlias = str | int | Mapping[str, float] | tuple[Stage, ...]
"""A name, a time (epoch ms), shares or stages."""


class SettingsText(Protocol):
    """How settings are written: by name, of an experiment or of one of its stages."""

    def __call__(self, experiment: str, settings: Mapping[str, ProposedValue], stage: str | None = None) -> str:
        """Return the text that names the place and the settings."""


def settings_named(experiment: str, settings: Mapping[str, ProposedValue], stage: str | None = None) -> str:
    """Name the settings without their values.

    >>> settings_named("ranker", {"start": 1_732_183_200_000, "end": 1_732_186_800_000})
    'start and end of ranker'
    """
    return f"{' and '.join(settings)} of {experiment}{'' if stage is None else f', in stage {stage}'}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """Settings with which the arms have users of the same times. start_ms, end_ms: None: leave them. stages: empty: leave them."""

    start_ms: int | None = None
    end_ms: int | None = None
    stages: tuple[Stage, ...] = ()

    @property
    def settings(self) -> dict[str, ProposedValue]:
        """The settings by name."""
        times = {name: at for name, at in (("start", self.start_ms), ("end", self.end_ms)) if at is not None}
        return {**times, "stages": self.stages} if self.stages else {**times}
