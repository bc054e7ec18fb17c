"""Builders for the panels of our dashboards, on Grafana's foundation SDK. Knows no series, and no place on the grid."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from grafana_foundation_sdk.models import common, dashboard, stat, statetimeline, table, timeseries

NARROW_COLUMNS: Final = 8
"""Panels up to this width have no room for a legend with numbers."""

GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = "green", "yellow", "orange", "red", "blue", "purple", "#808080"
Steps = Sequence[tuple[float | None, str]]
"""Thresholds: pairs of a lower bound (None: no bound) and a colour."""
Rule = tuple[dashboard.MatcherConfig, Mapping[str, object]]
"""An override: which fields, and their other properties."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and the legend of its series, with labels as {{label}}."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A panel without its place: content, options, and size on a grid of 24 columns."""

    kind: str
    title: str
    description: str
    options: object
    queries: tuple[Query, ...] = ()
    instant: bool = False
    unit: str | None = None
    decimals: int | None = None
    least: float | None = None
    most: float | None = None
    empty: str | None = None
    steps: Steps = ()
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    custom: object | None = None
    color: str | None = None
    rules: tuple[Rule, ...] = ()
    changes: tuple[dashboard.DataTransformerConfig, ...] = ()
    width: int = 12
    height: int = 8
    repeat: str | None = None


# --- panels


def lines(title: str, description: str, unit: str, *queries: Query, **others: Any) -> Block:
    """Make a panel of curves. `stacked` stacks them; `limits` draws the thresholds as lines.

    `soft_max` is the minimal end of an axis that begins at 0. Without it Grafana shows a curve of zeros on an axis up to 100.
    """
    stacked, limits = others.pop("stacked", False), others.pop("limits", False)
    soft_max = others.pop("soft_max", 0.01 if unit == "percentunit" else 1) if others.get("least") == 0 and "most" not in others else None
    custom = timeseries.FieldConfig(
        draw_style=common.GraphDrawStyle.LINE,
        line_width=1,
        fill_opacity=30 if stacked else 0,
        show_points=common.VisibilityMode.AUTO,
        span_nulls=False,
        axis_soft_max=soft_max,
    )
    if stacked:
        custom.stacking = common.StackingConfig(mode=common.StackingMode.NORMAL, group="A")
    if limits:
        custom.thresholds_style = common.GraphThresholdsStyleConfig(mode=common.GraphThresholdsStyleMode.DASHED)
    calcs = ("lastNotNull", "min", "max") if others.get("width", 12) > NARROW_COLUMNS else ()
    options = timeseries.Options(legend=_legend(*calcs), tooltip=_tooltip())
    return Block(
        kind="timeseries",
        title=title,
        description=description,
        unit=unit,
        queries=queries,
        options=options,
        custom=custom,
        color="palette-classic",
        **others,
    )


def number(title: str, description: str, unit: str, *queries: Query, **others: Any) -> Block:
    """Make a panel with one current number per series, coloured by thresholds. `filled` colours the background."""
    mode = common.BigValueColorMode.BACKGROUND if others.pop("filled", False) else common.BigValueColorMode.VALUE
    reduce = common.ReduceDataOptions(values=False, calcs=["lastNotNull"], fields="")
    options = stat.Options(graph_mode=common.BigValueGraphMode.NONE, color_mode=mode, reduce_options=reduce)
    shape = {"width": 4, "height": 4, "color": "thresholds", **others}
    return Block(kind="stat", title=title, description=description, unit=unit, queries=queries, instant=True, options=options, **shape)


def states(title: str, description: str, *queries: Query, words: Mapping[str, tuple[str, str]], **others: Any) -> Block:
    """Make a panel of words over time, with one bar per series."""
    options = statetimeline.Options(
        show_value=common.VisibilityMode.AUTO, legend=_legend(), tooltip=_tooltip(), row_height=0.8, merge_values=True
    )
    custom = statetimeline.FieldConfig(line_width=0, fill_opacity=70)
    return Block(
        kind="state-timeline",
        title=title,
        description=description,
        unit="none",
        queries=queries,
        options=options,
        custom=custom,
        color="thresholds",
        words=words,
        **others,
    )


def listing(title: str, description: str, columns: Mapping[str, str], *queries: Query, sort: tuple[str, bool], **others: Any) -> Block:
    """Make a table of instant queries, joined by their labels.

    `columns` maps a label or the letter of a query to its heading, in order. `sort` is a heading, and whether the greatest is first.
    """
    names = {f"Value #{key}" if key in LETTERS else key: heading for key, heading in columns.items()}
    if len(queries) == 1:
        names = {"Value" if name == "Value #A" else name: heading for name, heading in names.items()}
    unnamed = {f"Value #{letter}": True for letter, _ in zip(LETTERS, queries, strict=False) if letter not in columns}
    organised = {
        "excludeByName": {"Time": True, **unnamed},
        "indexByName": {name: at for at, name in enumerate(names)},
        "renameByName": names,
    }
    options = table.Options(show_header=True, sort_by=[common.TableSortByFieldState(display_name=sort[0], desc=sort[1])])
    options.footer = None  # only older versions have it
    return Block(
        kind="table",
        title=title,
        description=description,
        queries=queries,
        instant=True,
        options=options,
        custom=common.TableFieldOptions(align=common.FieldTextAlignment.AUTO, inspect=False, cell_options=common.TableAutoCellOptions()),
        changes=(
            dashboard.DataTransformerConfig(id_val="merge", options={}),
            dashboard.DataTransformerConfig(id_val="organize", options=organised),
        ),
        **others,
    )


LETTERS: Final = string.ascii_uppercase


def of_query(letter: str, **properties: object) -> Rule:
    """Override the series of one query. Keys are paths with __ for a dot, such as custom__lineWidth."""
    return dashboard.MatcherConfig(id_val="byFrameRefID", options=letter), _dotted(properties)


def of_field(name: str, **properties: object) -> Rule:
    """Override the series or column of this name."""
    return dashboard.MatcherConfig(id_val="byName", options=name), _dotted(properties)


def of_pattern(pattern: str, **properties: object) -> Rule:
    """Override the series with names that match /pattern/."""
    return dashboard.MatcherConfig(id_val="byRegexp", options=pattern), _dotted(properties)


def dashed(letter: str, gap: int = 10) -> Rule:
    """Draw the series of one query as dashed lines."""
    return of_query(letter, custom__lineStyle={"fill": "dash", "dash": [10, gap]})


def fixed(color: str) -> dict[str, object]:
    """Return a fixed colour for an override."""
    return {"mode": "fixed", "fixedColor": color}


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    """Return absolute thresholds."""
    return dashboard.ThresholdsConfig(
        mode=dashboard.ThresholdsMode.ABSOLUTE, steps=[dashboard.Threshold(value=value, color=color) for value, color in steps]
    )


def mapping(meanings: Mapping[str, tuple[str, str]]) -> dashboard.ValueMap:
    """Map values to coloured words."""
    results = {
        value: dashboard.ValueMappingResult(text=word, color=color, index=at) for at, (value, (word, color)) in enumerate(meanings.items())
    }
    return dashboard.ValueMap(options=results)


def _dotted(properties: Mapping[str, object]) -> dict[str, object]:
    return {key.replace("__", "."): value for key, value in properties.items()}


def _legend(*calcs: str) -> common.VizLegendOptions:
    mode = common.LegendDisplayMode.TABLE if calcs else common.LegendDisplayMode.LIST
    return common.VizLegendOptions(display_mode=mode, placement=common.LegendPlacement.BOTTOM, show_legend=True, calcs=list(calcs))


def _tooltip() -> common.VizTooltipOptions:
    return common.VizTooltipOptions(mode=common.TooltipDisplayMode.MULTI, sort=common.SortOrder.DESCENDING)
