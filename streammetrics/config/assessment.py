"""Settings of assessment metrics: which are computed, and what is known of the items that lists show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from streammetrics.config.fields import PATH_OR_EMPTY, Conflict, Listed, OptionalText, Section, Text, Whole, setting, shown, whole
from streammetrics.metrics.assessment import USERS_MAX
from streammetrics.metrics.names import ASSESSMENT_NAMES, CUTOFFS, Metric


def _name(name: str) -> str:
    if name not in ASSESSMENT_NAMES:
        raise ValueError(f"{shown(name)} is not an assessment metric")
    return name


def _label(text: str | None) -> str | None:
    name, _, value = (text or "").partition("=")
    if text is not None and not (name and value):
        raise ValueError("a segment is NAME=VALUE")
    return text


AssessmentName = Annotated[str, AfterValidator(_name)]


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
        needed = {
            "diversity": ("catalogue_file", "attributes"),
            "novelty": ("catalogue_file", "users_field", "users"),
            "popularity_share": ("catalogue_file", "interactions_field"),
            "catalogue_share": ("catalogue_file",),
            "fallback_share": ("fallback",),
        }
        for field in dict.fromkeys(field for name in self.names for field in needed[name] if not getattr(self, field)):
            name = next(name for name in self.names if field in needed[name])
            yield Conflict((f"assessment.{field}", "assessment.names"), f"is required with {name}")
