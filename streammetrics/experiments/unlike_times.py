"""Which treatments cannot be compared, because their users are of other times than the control's, and why. Stored counts in, words out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from streammetrics.experiments.arrivals import Arrivals
from streammetrics.experiments.measures import Measures
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.proposals import Changed, propose
from streammetrics.experiments.proposed_settings import Proposal
from streammetrics.experiments.share_changes import share_change
from streammetrics.experiments.share_words import change_words, facts
from streammetrics.experiments.silent_arms import silent_arm, silent_words
from streammetrics.experiments.stages import Stage, stage_key
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.words import percent, say


class UnlikeTimes(NamedTuple):
    """What is known of the times of an experiment's arms.

    reasons: why a treatment is not compared, by treatment.
    changes: the first change of a share in each stage, by the stage's key; "" without stages.
    notes: sentences about changes that are too small to matter.
    proposal: the settings with which all treatments can be compared.
    """

    reasons: Mapping[str, str]
    changes: Mapping[str, Changed]
    notes: tuple[str, ...] = ()
    proposal: Proposal | None = None


ALIKE: Final = UnlikeTimes({}, {})


def unlike_times(policy: Policy, measures: Measures, stored: Stored, control: str | None) -> UnlikeTimes:
    """Return which treatments have users of other times than the control, by the test of shares in each stage, and which have stopped.

    A change that moves at most `late_share_max` of an arm's users to other times is no reason. It has a note.
    """
    if control is None:
        return ALIKE
    reasons, changes, notes = dict[str, str](), dict[str, Changed](), list[str]()
    serious, ends = list[Changed](), list[int]()
    treatments = policy.treatments(control, stored.first_exposures)
    for key, stage, arrivals in _spans(policy, stored):
        for treatment in treatments:
            change = share_change(arrivals, control, treatment, tests=max(1, len(policy.stages)))
            if change is None:
                continue
            changed = Changed(stored.experiment, control, treatment, change, arrivals, (control, *treatments), stage)
            changes.setdefault(key, changed)
            if change.unlike_share > policy.late_share_max:
                serious.append(changed)
                reasons.setdefault(treatment, change_words(changed, policy))
            else:
                moved, limit = percent(change.unlike_share), percent(policy.late_share_max)
                few = say(
                    "only {moved} of the {unit}s are of other times, up to {limit} are tolerated",
                    moved=moved,
                    unit=policy.unit,
                    limit=limit,
                )
                notes.append(say("{facts}; {few}", facts=facts(changed, policy), few=few))
    for treatment in treatments:
        if treatment not in reasons and (silent := silent_arm(measures, stored, control, treatment)) is not None:
            ends.append(silent.end_ms)
            reasons[treatment] = silent_words(policy, stored.experiment, silent, control, treatment)
    return UnlikeTimes(reasons, changes, tuple(notes), propose(serious, policy, min(ends, default=None)))


def _spans(policy: Policy, stored: Stored) -> Iterator[tuple[str, Stage | None, Arrivals]]:
    """Yield what is tested alone: the key, the stage, and the arrivals. Without stages there is one, of all arrivals.

    Users who return in a later stage are no arrivals there.
    """
    of_stages: dict[str, Stage | None] = {stage_key(stage, policy.stage_label is not None): stage for stage in policy.stages}
    of_stages = of_stages or {"": None}
    for each in stored.in_stages:
        if each.entry == each.key in of_stages and each.unit == policy.unit:
            yield each.key, of_stages[each.key], each.arrivals
