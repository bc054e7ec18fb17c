"""What bends the comparison of an experiment, besides what forbids it: losses, signs in the lists, a changed effect. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from streammetrics.experiments.arms import Arms
from streammetrics.experiments.experiment_report import SINCE_START, VariantReport
from streammetrics.experiments.hours import HOUR_MS, Hours
from streammetrics.experiments.list_signs import ListSigns, list_signs
from streammetrics.experiments.losses import losses_of
from streammetrics.experiments.measure_words import change_words
from streammetrics.experiments.segment_shares import strata_warning, uneven_shares
from streammetrics.experiments.stored import Stored
from streammetrics.statistics.measures import USERS_AT, measure_text
from streammetrics.words.numbers import counted, percent
from streammetrics.words.sentences import DataWarning, measure_name, named, say
from streammetrics.words.times import minute_text

BOTH_ARMS_MIN: Final = 0.01
"""The share of two arms' users with lists in both from which a note says so."""


def loss_warning(arms: Arms, treatment: str, control: str | None) -> DataWarning | None:
    """Say that one of two arms loses users, or has other users, so that they are not compared; None if neither is certain."""
    if control is None:
        return None
    if (lost := losses_of(arms.policy, arms.stored, treatment, control, arms.states.stopped)) is not None:
        return DataWarning("losses", lost, variant=treatment)
    uneven = uneven_shares(arms.policy, arms.stored, treatment, control)
    return None if uneven is None else DataWarning("uneven shares", uneven, variant=treatment)


def warnings_of(arms: Arms, control: str | None, treatments: Iterable[str]) -> Iterator[DataWarning]:
    """Yield what bends a comparison, although it is no reason to leave it out: hours without an arm, and users in both arms."""
    strata = strata_warning(arms.policy, arms.stored)
    if strata is not None:
        yield strata
    for treatment in treatments if control is not None else ():
        assert control is not None
        silence = arms.silence(treatment, control)
        if silence is not None:
            yield silence
        uneven = uneven_shares(arms.policy, arms.stored, treatment, control, of_windows=False)
        if uneven is not None:
            yield DataWarning("uneven shares", uneven, variant=treatment)
        one, other = sorted((treatment, control))
        both = arms.stored.pairs.get((one, other), (0,))[USERS_AT]
        users = sum(arms.stored.moments[arm][USERS_AT] for arm in (one, other) if arm in arms.stored.moments) - both
        if arms.policy.unit == "user" and not arms.states.stopped.keys() & {one, other} and both > BOTH_ARMS_MIN * users:
            said = say(
                "{share} of the users have lists of both {treatment} and {control}: all count in the variant that they show, so the arms"
                " differ less than two rankers would",
                share=percent(both / users),
                treatment=named(treatment),
                control=named(control),
            )
            yield DataWarning("users in both arms", said, variant=treatment)


def change_warning(arms: Arms, variant: VariantReport) -> DataWarning | None:
    """Say that the effect on a deciding measure has changed: the verdict is about a mixture of two effects. None without a verdict."""
    changed_measure = next((measure for measure in variant.measures if measure.change is not None), None)
    if (
        variant.verdict is None
        or variant.verdict.word == "invalid"
        or changed_measure is None
        or changed_measure.change is None
        or changed_measure.change.before.lift is None
        or changed_measure.change.since.lift is None
    ):
        return None
    measure = arms.measures.named(measure_text(changed_measure.metric, changed_measure.k))
    changed = change_words(measure, changed_measure.change.before.lift, changed_measure.change.since.lift, changed_measure.change.at_ms)
    said = say("{variant} on {measure}: {changed}", variant=named(variant.variant), measure=measure_name(str(measure)), changed=changed)
    setting = arms.policy.settings_text(arms.stored.experiment, {"start": changed_measure.change.at_ms})
    return DataWarning("effect changed", said, f"to compare only the lists since, set {setting}", variant.variant)


def signs_of(arms: Arms, control: str | None, treatments: Iterable[str]) -> dict[str, ListSigns]:
    """Return the signs in the lists of each treatment that has lists of the same times as the control."""
    if control is None:
        return {}
    stopped = arms.states.stopped  # users of an arm that has stopped have no more lists, so its signs would mean nothing
    like_lists = {treatment: arms.like_lists(treatment, control) for treatment in treatments if not stopped.keys() & {treatment, control}}
    return {treatment: list_signs(arms.measures, lists) for treatment, lists in like_lists.items() if lists is not None}


def notes_of_times(stored: Stored) -> Iterator[str]:
    """Yield which lists under this name are not in the numbers."""
    if stored.open_lists:
        yield say(
            "{lists} at the end of the input {do} not count: feedback on them may not have come yet",
            lists=counted(stored.open_lists, "list"),
            do="does" if stored.open_lists == 1 else "do",
        )
    if stored.end_ms is not None and (late := _lists_from(stored.hours, stored.end_ms)):
        yield say(
            "{lists} from {end} on had counted before the end was set: {stay} in the numbers",
            lists=counted(late, "list"),
            end=minute_text(stored.end_ms),
            stay="it stays" if late == 1 else "they stay",
        )
    if stored.former_last_ms is not None and stored.scope == SINCE_START:
        yield say(
            "an earlier run under this name is not in these numbers: its last list was at {last}, and this run began at {first}",
            last=minute_text(stored.former_last_ms),
            first=minute_text(stored.from_ms),
        )


def _lists_from(hours: Hours, from_ms: int) -> int:
    """Return the lists in the blocks of hours that begin at or after a time."""
    block_ms = hours.length * HOUR_MS
    return sum(totals[0] for block, row in hours.rows.items() if block * block_ms >= from_ms for totals in row.totals.values())
