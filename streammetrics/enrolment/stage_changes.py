"""What the settings change about stages of rollouts that have begun. Pure.

A list counts in the stage that the settings name when it is enrolled. If the settings then change this stage, later lists count in another
one, and their sums cannot be added. So a worker refuses settings that have lost a stage with counted lists. A stage that begins before
lists that count in the one before is accepted with a warning: these lists cannot move any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from streammetrics.enrolment.rules import ExperimentRules, StagePlan
from streammetrics.enrolment.runs import PartName
from streammetrics.errors import UnfitStateError
from streammetrics.events.event_time import DAY_MS

StageChangeKind: TypeAlias = Literal["gone", "unit", "late"]
_FIX: Final = {
    "gone": "restore the stages of this experiment, because a stage that has begun keeps its start or label; or give the changed rollout"
    " another experiment name; or set experiments.stages_may_change = true, and this experiment stays invalid",
    "unit": "restore the unit of this experiment; or give the changed one another experiment name; or set experiments.stages_may_change ="
    " true, and this experiment stays invalid",
    "late": "add a stage to the settings of all workers before it begins, or let it begin later",
}
_NO_STAGES: Final = StagePlan()


class StageChange(NamedTuple):
    """One change: its experiment, the stage whose lists count (its key), their latest (ms), and what the settings have now, in words.

    `is_over` is whether the settings have no stages of the experiment any more, and no list of it came in the last day of event time.
    """

    kind: StageChangeKind
    experiment: str
    stage: str
    last_ms: int
    before: str
    now: str
    is_over: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether a worker must not start with it: later lists would count in another stage."""
        return self.kind != "late" and not self.is_over

    @property
    def message(self) -> str:
        counted = f"experiment {self.experiment!r}: lists up to {_time(self.last_ms)} count"
        if self.kind == "unit":
            return f'{counted} with unit = "{self.before}", and the settings now have unit = "{self.now}"'
        if self.kind == "late":
            return f"{counted} in {self.before}, although {self.now} begins before them in the settings: it was added or moved too late"
        return f"{counted} in {self.before}, and the settings no longer have it; they have {self.now}"

    @property
    def fix(self) -> str:
        return _FIX[self.kind]


class CountedStage(NamedTuple):
    """Lists of an experiment that count in one task: their part of the run, the latest of them, and the latest list of the run.

    `watermark` is that of the task. Times are in ms.
    """

    experiment: str
    part: PartName
    last_ms: int
    run_last_ms: int
    watermark: int


def stage_changes(tasks: Iterable[Iterable[CountedStage]], rules: ExperimentRules) -> list[StageChange]:
    """Return what the settings change about the stored state of these tasks. A change of several tasks has their latest list."""
    found: dict[tuple[str, str, str], StageChange] = {}
    for counted in tasks:
        for change in _of_task(counted, rules):
            key = change.kind, change.experiment, change.stage
            known = found.get(key, change)
            found[key] = change._replace(last_ms=max(change.last_ms, known.last_ms), is_over=change.is_over and known.is_over)
    return [found[key] for key in sorted(found)]


def refuse_changed_stages(changes: Iterable[StageChange]) -> None:
    """Raise StateError if some of the changes are refused."""
    refused = [change for change in changes if change.is_refused]
    if refused:
        raise UnfitStateError("\n".join(f"{change.message}; {change.fix}" for change in refused))


def _of_task(counted: Iterable[CountedStage], rules: ExperimentRules) -> Iterator[StageChange]:
    for each in counted:
        plan = rules.plans.get(each.experiment, _NO_STAGES)
        is_over = each.experiment not in rules.plans and each.run_last_ms + DAY_MS < each.watermark
        yield from _of_part(each.experiment, each.part, each.last_ms, plan, is_over)


def _of_part(experiment: str, name: PartName, last_ms: int, plan: StagePlan, is_over: bool) -> Iterator[StageChange]:
    stage, by_label = name.stage, plan.label is not None
    units = "list" if name.variant else "user", "list" if plan.by_list else "user"
    starts = dict(plan.starts)
    if units[0] != units[1]:
        yield StageChange("unit", experiment, stage, last_ms, *units, is_over)
    elif stage not in (plan.values if by_label else starts):
        yield StageChange("gone", experiment, stage, last_ms, _named(stage), _all_named(plan), is_over)
    elif not by_label:
        later = next((start for start in starts.values() if start > starts[stage]), None)
        if later is not None and later <= last_ms:
            yield StageChange("late", experiment, stage, last_ms, _named(stage), _named(str(later)))


def _all_named(plan: StagePlan) -> str:
    keys = plan.values if plan.label is not None else [key for key, _ in plan.starts]
    return "no stages for it" if plan == _NO_STAGES else ", ".join(_named(key) for key in keys)


def _named(key: str) -> str:
    """Return a stage in words.

    >>> _named(""), _named("1700000000000"), _named("half")
    ('the stage that begins with the experiment', 'the stage that begins at 2023-11-14 22:13:20 UTC', "the stage with label 'half'")
    """
    if not key:
        return "the stage that begins with the experiment"
    return f"the stage that begins at {_time(int(key))}" if key.isdecimal() and len(key) >= 12 else f"the stage with label {key!r}"


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
