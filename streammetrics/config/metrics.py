"""Settings of the metrics: which are computed, at which cut-offs, and under which definitions. Then those of what lists show (assessment),
and of engagement."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

from streammetrics.config.fields import (
    PATH_OR_EMPTY,
    Conflict,
    Listed,
    Number,
    OptionalText,
    Section,
    Text,
    Whole,
    milliseconds,
    parsed_json,
    setting,
    value_text,
    whole,
)
from streammetrics.events.grades import parse_grades
from streammetrics.metrics import METRIC_NAMES, Metric, MetricError, Spec
from streammetrics.metrics.assessment import USERS_MAX, AssessmentLayout
from streammetrics.metrics.engagement import EngagementLayout
from streammetrics.metrics.names import ASSESSMENT_NAMES, CUTOFFS, ENGAGEMENT_NAMES
from streammetrics.metrics.records import METRICS, depends_on
from streammetrics.sessions.rules import EngagementRules


def _one_of(names: Collection[str], kind: str) -> AfterValidator:
    """Return the check that a name is one of `names`; `kind` is what they are, with its article."""

    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"{value_text(name)} is not {kind} metric")
        return name

    return AfterValidator(check)


def _label(text: str | None) -> str | None:
    name, _, value = (text or "").partition("=")
    if text is not None and not (name and value):
        raise ValueError("a segment is NAME=VALUE")
    return text


AssessmentName = Annotated[str, _one_of(ASSESSMENT_NAMES, "an assessment")]


class AssessmentSettings(Section):
    names: Listed[AssessmentName] = setting(
        (),
        "Assessment metrics to compute, such as diversity and novelty. Empty: none.",
        f"a list of distinct names from {', '.join(ASSESSMENT_NAMES)}",
    )
    cutoffs: Annotated[Listed[Annotated[Whole, Field(ge=1)]], Field(min_length=1, max_length=8)] = setting(
        (10,),
        "Cut-offs k: how many places from the top they cover. fallback_share has none.",
        "a list of 1 to 8 distinct numbers from 1 to events.items_max",
    )
    catalogue_file: OptionalText = setting(
        None,
        "A table with one row for each item: CSV, TSV, NDJSON, a JSON array or Parquet. It is read once, at the start. State belongs"
        " to the content of the catalogue: another one needs a new redis.namespace.",
        PATH_OR_EMPTY,
    )
    item_field: Text = setting("item_id", "The column of the catalogue that has the id of the item.", "a column's name")
    attributes: Listed[Text] = setting(
        (), "With diversity: the columns of the catalogue to compare items by, such as genre and brand.", "a list of distinct columns"
    )
    interactions_field: OptionalText = setting(
        None, "With popularity_share: the column that has how often the item was used before.", "a column's name, or empty for none"
    )
    users_field: OptionalText = setting(
        None, "With novelty: the column that has by how many users the item was used before.", "a column's name, or empty for none"
    )
    users: Whole = whole(0, "With novelty: all users of the time that users_field is about.", 0, USERS_MAX)
    fallback: Annotated[OptionalText, AfterValidator(_label)] = setting(
        None,
        "With fallback_share: the segment of lists that came from a fallback, such as source=popular.",
        "NAME=VALUE, or empty for none",
    )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics to compute, each at all cut-offs; fallback_share once."""
        return tuple(Metric(name, k) for name in self.names for k in (self.cutoffs if CUTOFFS[name] != "none" else (0,)))

    @property
    def fallback_label(self) -> tuple[str, str]:
        """The name and the value of the segment of lists from a fallback; empty without one."""
        name, _, value = (self.fallback or "").partition("=")
        return name, value

    def conflicts(self, items_max: int) -> Iterator[Conflict]:
        """Yield what the chosen metrics lack, and settings that contradict each other."""
        if (deepest := max(self.cutoffs)) > items_max and self.names:
            yield Conflict(("assessment.cutoffs", "events.items_max"), f"{deepest} exceeds events.items_max ({items_max})")
        needed = {name: METRICS[name].settings for name in self.names}
        for field in dict.fromkeys(field for fields in needed.values() for field in fields if not getattr(self, field)):
            name = next(name for name, fields in needed.items() if field in fields)
            yield Conflict((f"assessment.{field}", "assessment.names"), f"is required with {name}")


def _metric(name: str) -> str:
    if name not in METRIC_NAMES:
        cutoff = "; put its cut-off in metrics.cutoffs" if "@" in name else ""
        raise ValueError(f"{value_text(name)} is not a metric{cutoff}")
    return name


def _table(given: object) -> object:
    """Read a table that is given as text, as the environment and flags do: `0,1,3` or a JSON array. Names stay text."""
    if isinstance(given, str) and (given.lstrip().startswith("[") or given.replace(".", "").replace(",", "").replace(" ", "").isdecimal()):
        given = parsed_json(given if given.lstrip().startswith("[") else f"[{given}]", "a list of numbers")
    return tuple(given) if isinstance(given, list) else given


def _checked(field: Literal["gain", "discount"]) -> Any:
    def check(given: object) -> object:
        try:
            return getattr(Spec(**{field: given}), field)  # type: ignore[arg-type]
        except MetricError as error:
            raise ValueError(error.rule) from None

    return BeforeValidator(check)


def _plain(value: str | tuple[float, ...]) -> str | list[float]:
    return value if isinstance(value, str) else list(value)


MetricName = Annotated[str, AfterValidator(_metric)]
GainChoice = Annotated[str | tuple[float, ...], _checked("gain"), BeforeValidator(_table), PlainSerializer(_plain)]
DiscountChoice = Annotated[str | tuple[float, ...], _checked("discount"), BeforeValidator(_table), PlainSerializer(_plain)]


class MetricSettings(Section):
    names: Annotated[Listed[MetricName], Field(min_length=1)] = setting(
        ("ndcg", "mrr", "hit_rate", "item_hit_rate"),
        "Metrics to compute.",
        f"a list of distinct names from {', '.join(METRIC_NAMES)}",
    )
    cutoffs: Annotated[Listed[Annotated[Whole, Field(ge=1)]], Field(min_length=1, max_length=32)] = setting(
        (10,),
        "Cut-offs k: how many places from the top a metric covers. r_precision has none.",
        "a list of 1 to 32 distinct numbers from 1 to events.items_max",
    )
    gain: GainChoice = setting(
        "linear",
        "Gain of a grade g: linear is g, exp2 is 2^g - 1, binary is 1 if the item is relevant. A table has the gains of the grades 0, 1, "
        "2, ... and needs whole grades in join.grades. (ndcg_exp always uses exp2.)",
        "linear, exp2, binary, or a list of numbers from 0, the first 0",
    )
    discount: DiscountChoice = setting(
        "log2(i+1)",
        "Divisor of the gain at rank i. max(1,log2(i)) counts ranks 1 and 2 in full. A table has the divisors of ranks 1, 2, ...; ranks "
        "beyond it earn nothing.",
        "log2(i+1), max(1,log2(i)), or a list of numbers above 0 that never fall",
    )
    relevant_grade: Number = setting(
        1,
        "Lowest grade of a relevant item, for metrics that only distinguish relevant from not relevant.",
        "a number above 0, at most the highest grade in join.grades",
        gt=0,
        le=100,
    )
    rbp_persistence: Number = setting(
        0.8, "With rbp: the probability that a user goes on to the next rank.", "a number above 0 and below 1", gt=0, lt=1
    )
    err_grade_max: Number = setting(
        4.0,
        "With err: the highest grade of the scale. An item of grade g satisfies a user with probability (2^g - 1) / 2^err_grade_max.",
        "a number above 0, at most 20, and with err at least the highest grade in join.grades",
        gt=0,
        le=20,
    )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics to compute, each at all cut-offs; those without a cut-off once."""
        return tuple(Metric(name, k) for name in self.names for k in (self.cutoffs if CUTOFFS[name] != "none" else (0,)))

    @property
    def spec(self) -> Spec:
        """The definitions of all metrics."""
        return Spec(
            gain=self.gain,  # type: ignore[arg-type]
            discount=self.discount,  # type: ignore[arg-type]
            relevance_threshold=self.relevant_grade,
            rbp_persistence=self.rbp_persistence,
            err_grade_max=self.err_grade_max,
        )

    def conflicts_with(self, grades: str) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield the keys and the rule of each contradiction with `join.grades`: grades without a gain, or above the scale of err."""
        levels = parse_grades(grades).grades
        entries = len(self.gain) if isinstance(self.gain, tuple) else 0
        if entries and (unfit := [grade for grade in levels if grade != int(grade) or grade >= entries]):
            rule = f"has no gain for grade {unfit[0]:g} of join.grades: a table has the gains of the whole grades 0 to {entries - 1}"
            yield ("metrics.gain", "join.grades"), rule
        if depends_on(self.names, "err_grade_max") and levels[-1] > self.err_grade_max:
            yield ("metrics.err_grade_max", "join.grades"), f"must be at least the highest grade in join.grades, {levels[-1]:g}, with err"


_RULES = EngagementRules()


EngagementName = Annotated[str, _one_of(ENGAGEMENT_NAMES, "an engagement")]


class EngagementSettings(Section):
    names: Listed[EngagementName] = setting(
        (),
        "Engagement metrics to compute, such as zero_result_rate and abandonment_rate. Empty: none.",
        f"a list of distinct names from {', '.join(ENGAGEMENT_NAMES)}",
    )
    click_ranks: Annotated[Listed[Annotated[Whole, Field(ge=1)]], Field(min_length=1, max_length=8)] = setting(
        (1, 3),
        "With first_click_share: ranks k. The share is that of first clicks at rank k or better.",
        "a list of 1 to 8 distinct numbers from 1 to events.items_max",
    )
    satisfied_grade: Number = setting(
        2,
        "With satisfied_rate: the least grade of an item that satisfies a user, such as that of a long stay or of a purchase.",
        "a number above 0, at most the highest grade in join.grades",
        gt=0,
        le=100,
    )
    purchases: Annotated[Listed[Text], Field(min_length=1, max_length=32)] = setting(
        tuple(sorted(_RULES.purchases)),
        "With purchases_per_list and value_per_list: the actions that are purchases. They need a grade above 0. The value of a purchase is"
        " that of its feedback, from 0 to 1,000,000.",
        "a list of distinct actions in join.grades",
    )
    reformulation_ms: Whole = milliseconds(
        _RULES.reformulation_ms,
        "With reformulation_rate: how soon the next list of a session follows a list that it replaces. At most join.attribution_ms.",
    )

    @property
    def measured(self) -> tuple[Metric, ...]:
        """The metrics that experiments can measure: all but quantiles, which are no sums over users."""
        return tuple(metric for metric in self.metrics if metric.record.columns)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics to compute, first_click_share once per rank."""
        return tuple(Metric(name, k) for name in self.names for k in (self.click_ranks if CUTOFFS[name] != "none" else (0,)))

    def layout(self, assessment: AssessmentLayout | None = None) -> EngagementLayout | None:
        """The columns of the metrics, with those of assessment metrics; None if there are none."""
        return EngagementLayout(self.metrics, self.satisfied_grade, assessment) if self.names or assessment is not None else None

    def rules(self, attribution_ms: int) -> EngagementRules | None:
        """What the join keeps of lists for the metrics; None if there are none."""
        return EngagementRules(frozenset(self.purchases), min(self.reformulation_ms, attribution_ms)) if self.names else None
