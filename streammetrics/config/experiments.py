"""Settings of experiments: which users' totals are kept, and what was decided about each experiment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator

from streammetrics.config.fields import (
    Clash,
    Listed,
    Number,
    OptionalText,
    Section,
    Text,
    Whole,
    milliseconds,
    parse_moment,
    setting,
    whole,
)
from streammetrics.experiments import ExperimentError, Policy

_POLICY = Policy()


def _moment(given: object) -> datetime | None:
    return None if given in ("", None) else parse_moment(given)


def _table(given: object) -> object:
    """A table, or JSON of one in a text."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given) if given.strip() else {}
    except (json.JSONDecodeError, RecursionError):
        raise ValueError("not a JSON object") from None


def _moment_text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


Moment = Annotated[datetime | None, PlainValidator(_moment), PlainSerializer(_moment_text, return_type=str | None, when_used="json")]


class Trial(Section):
    """What was decided about one experiment; what is None is as for all experiments."""

    control: OptionalText = None
    shares: Mapping[Text, Annotated[Number, Field(gt=0)]] | None = None
    start: Moment = None
    end: Moment = None
    cuped_days: Annotated[Whole, Field(ge=1, le=366)] | None = None
    cuped_verdict: bool | None = None
    alpha: Number | None = None
    margin: Number | None = None
    min_users: Whole | None = None
    minimum_lift: Number | None = None
    paging: Listed[Text] | None = None
    sample_ratio_alpha: Number | None = None
    multi_exposed_share_max: Number | None = None
    unmatched_share_max: Number | None = None


def _own(trial: Trial) -> dict[str, Any]:
    """The rules that an experiment has for itself."""
    return {name: value for name in Policy.__dataclass_fields__ if (value := getattr(trial, name)) is not None}


def _wrong(rules: Mapping[str, Any]) -> list[ExperimentError]:
    """All that is wrong with rules of an experiment: each alone, and, where that is nothing, with them together."""
    alone = [error for name, value in rules.items() if (error := _refused({name: value})) is not None]
    together = None if alone else _refused(rules)
    return alone if together is None else [together]


def _refused(rules: Mapping[str, Any]) -> ExperimentError | None:
    try:
        Policy(**rules)
    except ExperimentError as error:
        return error
    return None


class ExperimentSettings(Section):
    enabled: bool = setting(
        True,
        "Whether users are counted in experiments. Off: variants have windows and totals, and no intervals. Switched off, what is known of"
        " users is dropped; switched on, it begins with the lists that come next.",
    )
    idle_days: Whole = whole(30, "Days of event time without a list after which an experiment is over and all of it is dropped.", 1, 366)
    patience_ms: Whole = milliseconds(
        600_000, "How long a list that is final waits for its session to close, so that the lists of a visit enter experiments together."
    )
    variants_max: Whole = whole(200, "Most variants of all experiments of a task together.", 1, 100_000)
    metrics: Annotated[Listed[Text], Field(max_length=320)] = setting(
        (), "The metrics that variants are compared by, such as ndcg@10; none: all that are computed.", "a list of distinct names with @k"
    )
    paging: Annotated[Listed[Text], Field(max_length=320)] = setting(
        (),
        "The measures whose verdicts decide about an experiment and may wake people, such as ndcg@10; they share alpha. None: ndcg@10, or"
        " where that is not measured the first one that is.",
        "a list of distinct names with @k",
    )
    alpha: Number = setting(_POLICY.alpha, "Chance that an interval is ever wrong.", "a number between 0 and 1")
    margin: Number = setting(_POLICY.margin, "The relative drop that is tolerated.", "a number from 0 to below 1")
    min_users: Whole = whole(_POLICY.min_users, "Users that a variant needs before anything is shown of it.", 2, 1_000_000_000)
    minimum_lift: Number = setting(_POLICY.minimum_lift, "The relative effect that one wants to find.", "a number above 0")
    cuped_verdict: bool = setting(
        _POLICY.cuped_verdict, "Whether verdicts go by the interval with variance reduction, in experiments that have cuped_days."
    )
    sample_ratio_alpha: Number = setting(
        _POLICY.sample_ratio_alpha, "An experiment is invalid when its split of users is as unlikely as this.", "a number between 0 and 1"
    )
    multi_exposed_share_max: Number = setting(
        _POLICY.multi_exposed_share_max,
        "Most users of an experiment who saw several variants, or one without a share, by users.",
        "a number from 0 to 1",
    )
    unmatched_share_max: Number = setting(
        _POLICY.unmatched_share_max,
        "Most feedback that counts for no list, by all feedback of an experiment's days.",
        "a number from 0 to 1",
    )
    named: Annotated[Mapping[Text, Trial], BeforeValidator(_table)] = setting(
        {},
        "What was decided about single experiments, in a table [experiments.named.NAME] each: control, shares (a table of variants),"
        " start, end, cuped_days (the days before the start whose lists reduce the variance, 1 to 366; needs start), and any of"
        " paging, alpha, margin, min_users, minimum_lift, cuped_verdict, sample_ratio_alpha, multi_exposed_share_max,"
        " unmatched_share_max.",
        "a table of tables; in the environment or by --set, a JSON object of objects",
    )

    def policy(self, experiment: str) -> Policy:
        """The rules of one experiment. Raises ExperimentError for values that cannot be meant."""
        return Policy(**(self._general() | _own(self.named.get(experiment, Trial()))))

    def _general(self) -> dict[str, Any]:
        """The rules of all experiments, as far as there are such."""
        return {name: getattr(self, name) for name in Policy.__dataclass_fields__ if name not in ("shares", "control")}

    def clashes(self, metrics: tuple[str, ...], measures: tuple[str, ...]) -> Iterator[Clash]:
        """What cannot work together; `metrics` are computed of lists, `measures` are known of users."""
        if unknown := [name for name in self.metrics if name not in metrics]:
            yield Clash(("experiments.metrics", "metrics.names", "metrics.cutoffs"), f"{unknown[0]} is not computed: see metrics.names")
        for name, rules in (("", self._general()), *((name, _own(trial)) for name, trial in self.named.items())):
            message = f"{name}: " if name else ""
            for error in _wrong(rules):
                yield Clash(("experiments.named" if name else f"experiments.{error.subject}",), f"{message}{error}")
            if unknown := [measure for measure in rules.get("paging", ()) if measure not in measures]:
                key = "experiments.named" if name else "experiments.paging"
                yield Clash((key, "experiments.metrics"), f"{message}{unknown[0]} is not measured; allowed are {', '.join(measures)}")
        for name, trial in self.named.items():
            if trial.start is not None and trial.end is not None and trial.start >= trial.end:
                yield Clash(("experiments.named",), f"{name}: start must lie before end")
            if trial.start is None and trial.cuped_days is not None:
                rule = f"{name}: cuped_days = {trial.cuped_days} needs start, for they are the days before it: set start, or leave both out"
                yield Clash(("experiments.named",), rule)
