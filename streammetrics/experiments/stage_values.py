"""The stages of an experiment as its report shows them. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StageArm:
    """One variant in one stage.

    share: its configured part of the traffic, from 0 to 1; None without shares.
    weight: the part of this stage, from 0 to 1, in the comparison of lists with the control; None for the control.
    left_out: why the stage does not count for this variant; None if it does.
    """

    variant: str
    share: float | None
    users: int
    lists: int
    weight: float | None = None
    left_out: str | None = None


@dataclass(frozen=True, slots=True)
class StageReport:
    """One stage of an experiment, in one scope.

    start_ms, end_ms: its configured event time, where it has one.
    current: whether it runs now: at the time of the newest event or, with labels, because it has the latest list.
    sample_ratio_p: p-value of its split against its own shares; None without shares.
    multi_exposed_users: users who saw several variants within this stage. They are excluded from it.
    """

    stage: str
    start_ms: int | None
    end_ms: int | None
    current: bool
    arms: tuple[StageArm, ...]
    sample_ratio_p: float | None
    multi_exposed_users: int
