"""Settings of the stages of a rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, TypeAlias

from pydantic import Field

from streammetrics.config.fields import Number, OptionalText, Section, Text
from streammetrics.config.times import Moment, epoch_ms
from streammetrics.experiments import Stage

Shares: TypeAlias = Mapping[Text, Annotated[Number, Field(gt=0)]]


class StageSettings(Section):
    """One stage: the shares of the variants, its start, and its name. Without a name it has its number."""

    shares: Shares
    start: Moment = None
    name: OptionalText = None


def stages_of(stages: Sequence[StageSettings], stage_label: str | None) -> tuple[Stage, ...]:
    """Return the stages as the statistics take them."""
    return tuple(
        Stage(
            name=stage.name or ("" if stage_label is not None else str(number)),
            shares=dict(stage.shares),
            start_ms=None if stage.start is None else epoch_ms(stage.start),
        )
        for number, stage in enumerate(stages, 1)
    )


def stage_conflicts(
    stages: Sequence[StageSettings], stage_label: str | None, start: datetime | None, end: datetime | None
) -> Iterator[str]:
    """Yield the conflicts of stages with the start and the end of their experiment."""
    starts = [stage.start for stage in stages if stage.start is not None]
    if not starts or stage_label is not None:
        return
    if start is not None and stages[0].start is not None:
        yield "got a start beside that of the first stage; leave one of them out"
    elif start is not None and starts[0] <= start:
        yield "each stage after the first must start after the experiment"
    if end is not None and starts[-1] >= end:
        yield "the last stage must start before the end"
