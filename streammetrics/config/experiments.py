"""Settings of experiments: what is kept per user, the rules of each experiment, and the exposures that give users a variant.

What reports propose for one experiment is written as TOML that can be pasted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from streammetrics.config.fields import (
    Conflict,
    Listed,
    Number,
    OptionalText,
    Section,
    Text,
    Whole,
    milliseconds,
    setting,
    table_or_json,
    whole,
)
from streammetrics.config.times import EPOCH, Moment
from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments import ExperimentError, Policy
from streammetrics.experiments.policy import ProposedValue
from streammetrics.metrics.names import split_metric
from streammetrics.metrics.records import METRICS
from streammetrics.sessions.rules import ExposureRules

_EXPOSURE_DEFAULTS = ExposureRules()


class ExposureSettings(Section):
    enabled: bool = setting(
        False,
        "Whether exposures are joined to lists. On: a list gets the variant of its user's latest exposure to each experiment that it has"
        " no variant of, and live numbers end join.lateness_ms before the watermark. Off: exposures are refused.",
    )
    experiments: Annotated[Listed[Text], Field(max_length=1_000)] = setting(
        (),
        "The experiments whose exposures are read, such as the keys of feature flags. All others are ignored and counted. Empty: all.",
        "a list of distinct names",
    )
    validity_ms: Whole = milliseconds(
        _EXPOSURE_DEFAULTS.validity_ms,
        "How long after an exposure lists get its variant, inclusive. Longer times keep more users in the store.",
    )
    user_exposures_max: Whole = whole(
        _EXPOSURE_DEFAULTS.kept_max,
        "Maximum exposures that are kept of a user: those that may still matter. Further ones are refused and counted.",
        1,
        1_000_000,
    )

    def rules(self, experiments_max: int) -> ExposureRules | None:
        """Return the rules of the join; None if exposures are off."""
        return ExposureRules(self.validity_ms, self.user_exposures_max, experiments_max) if self.enabled else None

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings of this section that contradict each other."""
        if self.enabled and self.validity_ms > 366 * DAY_MS:
            yield Conflict(("exposures.validity_ms",), "must be at most 366 days")


Shares: TypeAlias = Mapping[Text, Annotated[Number, Field(gt=0)]]

_POLICY = Policy()
_NO_SETTINGS = ("effective_users_min", "settings_text")
_RULES = tuple(name for name in Policy.__dataclass_fields__ if name not in _NO_SETTINGS)
"""The rules that are settings. `effective_users_min` is none: only simulations can choose it."""


class NamedExperiment(Section):
    """The rules of one experiment. None means the value for all experiments."""

    control: OptionalText = None
    shares: Shares | None = None
    holdout: OptionalText = None
    unit: Literal["user", "list"] | None = None
    strata: OptionalText = None
    start: Moment = None
    end: Moment = None
    cuped_days: Annotated[Whole, Field(ge=1, le=366)] | None = None
    cuped_verdict: bool | None = None
    alpha: Number | None = None
    margin: Number | None = None
    gate_margin: Number | None = None
    min_users: Whole | None = None
    minimum_lift: Number | None = None
    paging: Listed[Text] | None = None
    sample_ratio_alpha: Number | None = None
    unmatched_share_max: Number | None = None


_OF_ONE: Final = ("control", "holdout", "shares", "strata", "unit")
"""Rules that can be set for single experiments only."""


def _own_rules(named: NamedExperiment) -> dict[str, Any]:
    """Return the rules that are set for one experiment."""
    return {name: value for name in _RULES if (value := getattr(named, name)) is not None}


def _errors(rules: Mapping[str, Any]) -> list[ExperimentError]:
    """Return the errors of each rule alone or, if there are none, of all rules together."""
    alone = [error for name, value in rules.items() if (error := _error({name: value})) is not None]
    together = None if alone else _error(rules)
    return alone if together is None else [together]


def _error(rules: Mapping[str, Any]) -> ExperimentError | None:
    try:
        Policy(**rules)
    except ExperimentError as error:
        return error
    return None


class ExperimentSettings(Section):
    enabled: bool = setting(
        True,
        "Whether users are counted in experiments. Off: variants have windows and totals but no intervals, and what was kept of users is"
        " dropped. On: counting starts with the next lists.",
    )
    idle_days: Whole = whole(30, "Days of event time without a list after which an experiment ends and its state is dropped.", 1, 366)
    patience_ms: Whole = milliseconds(
        600_000,
        "How long a final list waits at most for its session to close, so that all lists of a visit are added to experiments together.",
    )
    variants_max: Whole = whole(200, "Maximum variants of all experiments of a task. A list loses a further one.", 1, 100_000)
    metrics: Annotated[Listed[Text], Field(max_length=320)] = setting(
        (), "The metrics that variants are compared by, such as ndcg@10. Empty: all computed metrics.", "a list of distinct names with @k"
    )
    paging: Annotated[Listed[Text], Field(max_length=320)] = setting(
        (),
        "The measures that decide about an experiment and may page people, such as ndcg@10. They share alpha. Empty: ndcg@10 and"
        " item_hit_rate@10, or the first measure if neither is measured.",
        "a list of distinct names with @k",
    )
    alpha: Number = setting(_POLICY.alpha, "Probability that an interval is ever wrong.", "a number between 0 and 1")
    margin: Number = setting(
        _POLICY.margin,
        "The tolerated relative drop. `safe` has to detect an effect of this size. Without a difference it takes about 308,000 users at"
        " 0.01 and 11,600 at 0.05.",
        "a number from 0 to below 1",
    )
    gate_margin: Number = setting(
        _POLICY.gate_margin,
        "The relative drop that the gate of a rollout tolerates: it passes when every deciding measure is certainly not worse by more. It"
        " fails as soon as a drop of more than `margin` is certain.",
        "a number between 0 and 1",
    )
    min_users: Whole = whole(_POLICY.min_users, "Users that a variant needs before its numbers are shown.", 2, 1_000_000_000)
    minimum_lift: Number = setting(
        _POLICY.minimum_lift,
        "The relative effect to detect. Verdicts come earliest for effects of this size. Set it before the start.",
        "a number above 0",
    )
    cuped_verdict: bool = setting(
        _POLICY.cuped_verdict, "Whether verdicts use the interval with reduced variance, in experiments with cuped_days."
    )
    sample_ratio_alpha: Number = setting(
        _POLICY.sample_ratio_alpha,
        "An experiment is invalid if the p-value of its split of users is below this.",
        "a number between 0 and 1",
    )
    unmatched_share_max: Number = setting(
        _POLICY.unmatched_share_max,
        "Maximum share of feedback that matches no list, of all feedback of an experiment's days.",
        "a number from 0 to 1",
    )
    named: Annotated[Mapping[Text, NamedExperiment], BeforeValidator(table_or_json)] = setting(
        {},
        "Rules of single experiments, each in a table [experiments.named.NAME]: control, holdout (a variant that is reported and not"
        " judged), shares (a table of variants), start, end, unit"
        " (user or list: what is assigned to a variant), strata (a segment such as country whose values have shares of their own),"
        " cuped_days (days before the start with lists that reduce the variance, 1 to 366;"
        " needs start), and any of paging, alpha, margin, gate_margin,"
        " min_users, minimum_lift, cuped_verdict, sample_ratio_alpha, unmatched_share_max.",
        "a table of tables; in the environment or by --set, a JSON object of objects",
    )

    def policy(self, experiment: str) -> Policy:
        """Return the rules of one experiment. Raises ExperimentError for invalid values."""
        return Policy(settings_text=settings_text, **(self._general() | _own_rules(self.named.get(experiment, NamedExperiment()))))

    def _general(self) -> dict[str, Any]:
        """Return the rules that can be set for all experiments."""
        return {name: getattr(self, name) for name in _RULES if name not in _OF_ONE}

    def conflicts(self, metrics: tuple[str, ...], measures: tuple[str, ...]) -> Iterator[Conflict]:
        """Yield conflicting settings. `metrics` are the computed metrics, `measures` those measured per user."""
        if unknown := [name for name in self.metrics if name not in metrics]:
            yield Conflict(("experiments.metrics", "metrics.names", "metrics.cutoffs"), f"{unknown[0]} is not computed: see metrics.names")
        for name, rules in (("", self._general()), *((name, _own_rules(named)) for name, named in self.named.items())):
            message = f"{name}: " if name else ""
            for error in _errors(rules):
                yield Conflict(("experiments.named" if name else f"experiments.{error.subject}",), f"{message}{error}")
            if unknown := [measure for measure in rules.get("paging", ()) if measure not in measures]:
                key = "experiments.named" if name else "experiments.paging"
                yield Conflict((key, "experiments.metrics"), f"{message}{unknown[0]} is not measured; must be one of {', '.join(measures)}")
        for name, named in self.named.items():
            if named.start is not None and named.end is not None and named.start >= named.end:
                yield Conflict(("experiments.named",), f"{name}: start must be before end")
            if named.start is None and named.cuped_days is not None:
                rule = f"{name}: cuped_days = {named.cuped_days} needs a start: set start, or leave out both"
                yield Conflict(("experiments.named",), rule)
            for rule in self._conflicts_of_unit(named):
                yield Conflict(("experiments.named",), f"{name}: {rule}")

    def _conflicts_of_unit(self, named: NamedExperiment) -> Iterator[str]:
        if named.cuped_days is not None and named.unit == "list":
            yield 'cuped_days needs unit = "user": leave out one of them'
        counted = {name for name, record in METRICS.items() if record.kind == "users"}
        of_users = [measure for measure in named.paging or self.paging if split_metric(measure)[0] in counted]
        if named.unit == "list" and of_users:
            yield f'{of_users[0]} cannot decide with unit = "list", because a user may see several variants: set other measures in paging'


def settings_text(experiment: str, settings: Mapping[str, ProposedValue]) -> str:
    """Return where settings belong, and the settings.

    >>> settings_text("ranker v7", {"control": "a", "start": 1_732_183_200_000})
    'under [experiments.named."ranker v7"]: control = "a" and start = 2024-11-21T10:00:00Z'
    """
    return f"under {experiment_table(experiment)}: {' and '.join(setting_lines(settings))}"


def experiment_table(experiment: str) -> str:
    """Return the head of the table of an experiment."""
    return f"[experiments.named.{_key(experiment)}]"


def setting_lines(settings: Mapping[str, ProposedValue]) -> list[str]:
    """Return settings, each a line. Shares have six digits.

    >>> setting_lines({"shares": {"control": 0.9, "b 2": 0.1}})
    ['shares = { control = 0.9, "b 2" = 0.1 }']
    """
    return [f"{name} = {_value(value)}" for name, value in settings.items()]


def _value(value: ProposedValue) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return (EPOCH + timedelta(milliseconds=value)).isoformat().replace("+00:00", "Z")
    return f"{{ {', '.join(f'{_key(name)} = {share:.6g}' for name, share in value.items())} }}"


def _key(name: str) -> str:
    """Return a key: bare if it can be, else quoted."""
    return name if name and all(character.isascii() and (character.isalnum() or character in "-_") for character in name) else _string(name)


def _string(value: str) -> str:
    escaped = (
        f"\\u{ord(character):04x}" if character < " " or character == "\x7f" else f"\\{character}" if character in '"\\' else character
        for character in value
    )
    return f'"{"".join(escaped)}"'
