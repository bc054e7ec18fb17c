"""Stages of a rollout: spans of event time, or labels on the lists, with shares of their own. Values and their rules. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from streammetrics.experiments.measures import ExperimentError
from streammetrics.experiments.name_order import in_order
from streammetrics.experiments.sample_ratio import check_shares

STAGES_MAX: Final = 16
"""Stages of one experiment. Each pair of cells with common users has sums of its own, so their number grows with the square."""

ExperimentUnit: TypeAlias = Literal["user", "list"]
"""What is assigned to a variant: a user with all their lists, or each list (each request) on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: its name, each variant's part of the traffic, and its start (epoch ms).

    start_ms: None for the first stage if it begins with the experiment, and for stages by label.
    """

    name: str
    shares: Mapping[str, float] = field(hash=False)
    start_ms: int | None = None

    def share_of(self, variant: str) -> float:
        """Return a variant's share of the stage's traffic, from 0 to 1.

        >>> Stage(name="5 %", shares={"control": 19, "treatment": 1}).share_of("treatment")
        0.05
        """
        return self.shares.get(variant, 0.0) / sum(self.shares.values())


def stage_key(stage: Stage, by_label: bool) -> str:
    """Return what identifies a stage in stored state: its label, or its start. "" is a first stage that begins with the experiment.

    >>> stage_key(Stage(name="half", shares={}, start_ms=1_700_000_000_000), by_label=False)
    '1700000000000'
    """
    return stage.name if by_label else "" if stage.start_ms is None else str(stage.start_ms)


def check_stages(stages: Sequence[Stage], by_label: bool) -> None:
    """Raise ExperimentError for stages that do not fit together: other arms, no order, two kinds at once, or too many."""
    if len(stages) > STAGES_MAX:
        raise ExperimentError("stages", f"got {len(stages)}; must be at most {STAGES_MAX}")
    for number, stage in enumerate(stages, 1):
        _check_arms(stage, stages[0])
        if by_label and stage.start_ms is not None:
            raise ExperimentError(
                f"stage {stage.name!r}", "got a start beside stage_label: stages begin at a time or by a label, so leave one of them out"
            )
        if by_label and not stage.name:
            raise ExperimentError(f"stage {number}", "got no name; with stage_label, the name is the label of the stage's lists")
        if not by_label and number > 1 and stage.start_ms is None:
            raise ExperimentError(f"stage {stage.name!r}", "got no start; each stage after the first needs one")
    names = [stage.name for stage in stages]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ExperimentError("stages", f"got the name {twice[0]!r} twice; each needs its own")
    if not by_label:
        _check_order(stages)


def _check_arms(stage: Stage, first: Stage) -> None:
    subject = f"shares of stage {stage.name!r}"
    if len(stage.shares) < 2:
        raise ExperimentError(
            subject,
            f"got {_named(stage.shares)}; must be shares of two or more variants. A stage in which one variant has all traffic compares"
            " nothing: end the experiment there",
        )
    check_shares(stage.shares)
    if set(stage.shares) != set(first.shares):
        raise ExperimentError(
            subject, f"got {_named(stage.shares)}; must name the same variants as stage {first.name!r}, {_named(first.shares)}"
        )


def _check_order(stages: Sequence[Stage]) -> None:
    for before, after in pairwise(stages):
        if before.start_ms is not None and after.start_ms is not None and after.start_ms <= before.start_ms:
            raise ExperimentError("stages", f"stage {after.name!r} must start after stage {before.name!r}, which is before it in the list")


def _named(variants: Collection[str]) -> str:
    return ", ".join(in_order(variants)) or "none"
