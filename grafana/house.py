"""How our dashboards look: panels, rows, variables, links, annotations and the grid, on Grafana's foundation SDK.

Nothing here knows a series. Ids of panels and letters of queries are given here, because the SDK gives none: a panel's id is
its row's number times 100 plus its place there, so that an addition moves few of them.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from grafana.sdk import common, dashboard, prometheus, stat, statetimeline, table, text, timeseries

SCHEMA_VERSION: Final = 39
"""Of Grafana 10.4 to 11: what is older reads it, what is newer migrates it."""
TAG: Final = "streammetrics"
GRID_COLUMNS: Final = 24
NARROW_COLUMNS: Final = 8
"""Panels up to this width have no room for a legend with numbers."""
ROW_IDS: Final = 100
SOURCE: Final = common.DataSourceRef(type_val="prometheus", uid="${datasource}")

GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "green", "yellow", "orange", "red", "blue", "#808080"
Steps = Sequence[tuple[float | None, str]]
"""Thresholds: from this value on (None: from the least), this colour."""
Rule = tuple[dashboard.MatcherConfig, Mapping[str, object]]
"""An override: for which fields, and what is otherwise there."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and how its series are called, with labels as {{label}}."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A panel without its place: what it shows, how, and its size on a grid of 24 columns."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A row of the dashboard with its panels; a collapsed one asks for nothing until it is opened."""

    title: str
    blocks: tuple[Block, ...]
    collapsed: bool = False


# --- panels


def lines(title: str, description: str, unit: str, *queries: Query, **others: Any) -> Block:
    """Curves over time. `stacked` says how they are drawn; `limits` draws the thresholds as lines.

    `reach`: how far the axis goes at least, where it begins at 0: Grafana's own choice for a curve of zeros is 100.
    """
    stacked, limits = others.pop("stacked", False), others.pop("limits", False)
    reach = others.pop("reach", 0.01 if unit == "percentunit" else 1) if others.get("least") == 0 and "most" not in others else None
    custom = timeseries.FieldConfig(
        draw_style=common.GraphDrawStyle.LINE,
        line_width=1,
        fill_opacity=30 if stacked else 0,
        show_points=common.VisibilityMode.AUTO,
        span_nulls=False,
        axis_soft_max=reach,
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
    """One number a series, as of now, coloured by its thresholds; `filled` colours the background."""
    mode = common.BigValueColorMode.BACKGROUND if others.pop("filled", False) else common.BigValueColorMode.VALUE
    reduce = common.ReduceDataOptions(values=False, calcs=["lastNotNull"], fields="")
    options = stat.Options(graph_mode=common.BigValueGraphMode.NONE, color_mode=mode, reduce_options=reduce)
    shape = {"width": 4, "height": 4, "color": "thresholds", **others}
    return Block(kind="stat", title=title, description=description, unit=unit, queries=queries, instant=True, options=options, **shape)


def states(title: str, description: str, *queries: Query, words: Mapping[str, tuple[str, str]], **others: Any) -> Block:
    """Words over time, a bar a series."""
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
    """A table of instant queries joined by their labels. `columns`: label or letter of a query -> heading, in order.

    `sort`: heading, and whether the greatest comes first.
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
    options.footer = None  # of older versions only
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


def words(title: str, description: str, content: str, **others: Any) -> Block:
    """Markdown."""
    return Block(
        kind="text", title=title, description=description, options=text.Options(mode=text.TextMode.MARKDOWN, content=content), **others
    )


LETTERS: Final = string.ascii_uppercase


def of_query(letter: str, **properties: object) -> Rule:
    """An override for the series of one query; keys are paths with __ for a dot, such as custom__lineWidth."""
    return dashboard.MatcherConfig(id_val="byFrameRefID", options=letter), _dotted(properties)


def of_field(name: str, **properties: object) -> Rule:
    """An override for the series or column of that name."""
    return dashboard.MatcherConfig(id_val="byName", options=name), _dotted(properties)


def of_pattern(pattern: str, **properties: object) -> Rule:
    """An override for the series whose names match /pattern/."""
    return dashboard.MatcherConfig(id_val="byRegexp", options=pattern), _dotted(properties)


def dashed(letter: str, gap: int = 10) -> Rule:
    """The series of one query as dashed lines: beside others of the same colours, but not the same thing."""
    return of_query(letter, custom__lineStyle={"fill": "dash", "dash": [10, gap]})


def fixed(color: str) -> dict[str, object]:
    """A colour for an override."""
    return {"mode": "fixed", "fixedColor": color}


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    """Absolute thresholds."""
    return dashboard.ThresholdsConfig(
        mode=dashboard.ThresholdsMode.ABSOLUTE, steps=[dashboard.Threshold(value=value, color=color) for value, color in steps]
    )


def mapping(meanings: Mapping[str, tuple[str, str]]) -> dashboard.ValueMap:
    """Values as words with colours."""
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


# --- the whole


def build(
    *,
    uid: str,
    title: str,
    description: str,
    variables: Iterable[dashboard.VariableModel],
    annotations: Iterable[dashboard.AnnotationQuery],
    sections: Sequence[Section],
    since: str,
) -> dashboard.Dashboard:
    """The dashboard, with every panel at its place on the grid."""
    panels: list[dashboard.Panel | dashboard.RowPanel] = []
    y = 0
    for number_, section in enumerate(sections, start=1):
        row = dashboard.RowPanel(
            title=section.title,
            collapsed=section.collapsed,
            id_val=number_ * ROW_IDS,
            grid_pos=dashboard.GridPos(h=1, w=GRID_COLUMNS, x=0, y=y),
        )
        placed, end = _placed(section.blocks, number_ * ROW_IDS, y + 1)
        panels.append(row)
        if section.collapsed:
            row.panels, y = placed, y + 1
        else:
            panels.extend(placed)
            y = end
    return dashboard.Dashboard(
        uid=uid,
        title=title,
        description=description,
        tags=[TAG],
        timezone="browser",
        editable=False,
        graph_tooltip=dashboard.DashboardCursorSync.CROSSHAIR,
        time=dashboard.DashboardDashboardTime(from_val=since, to="now"),
        timepicker=dashboard.TimePickerConfig(refresh_intervals=["10s", "30s", "1m", "5m", "15m"]),
        refresh="30s",
        schema_version=SCHEMA_VERSION,
        version=1,
        panels=panels,
        templating=dashboard.DashboardDashboardTemplating(list_val=list(variables)),
        annotations=dashboard.AnnotationContainer(list_val=list(annotations)),
        links=[_links()],
    )


def _placed(blocks: Iterable[Block], first_id: int, y: int) -> tuple[list[dashboard.Panel], int]:
    """Left to right, then down; and the y below them all."""
    panels: list[dashboard.Panel] = []
    x = tallest = 0
    for number_, block in enumerate(blocks, start=1):
        if x + block.width > GRID_COLUMNS:
            x, y, tallest = 0, y + tallest, 0
        panels.append(_panel(block, first_id + number_, dashboard.GridPos(h=block.height, w=block.width, x=x, y=y)))
        x, tallest = x + block.width, max(tallest, block.height)
    return panels, y + tallest


def _panel(block: Block, panel_id: int, place: dashboard.GridPos) -> dashboard.Panel:
    panel = dashboard.Panel(
        type_val=block.kind,
        id_val=panel_id,
        title=block.title,
        description=block.description,
        grid_pos=place,
        options=block.options,
        repeat=block.repeat,
        repeat_direction="h" if block.repeat else None,
        max_per_row=3 if block.repeat else None,
    )
    if block.queries:
        panel.datasource = SOURCE
        panel.targets = [_target(block, letter, query) for letter, query in zip(LETTERS, block.queries, strict=False)]
        panel.transformations = list(block.changes) or None
        panel.field_config = _fields(block)
    return panel


def _target(block: Block, letter: str, query: Query) -> prometheus.Dataquery:
    as_table = block.kind == "table"
    return prometheus.Dataquery(
        ref_id=letter,
        expr=query.expr,
        datasource=SOURCE,
        editor_mode=prometheus.QueryEditorMode.CODE,
        legend_format=None if as_table else query.legend,
        format_val=prometheus.PromQueryFormat.TABLE if as_table else prometheus.PromQueryFormat.TIME_SERIES,
        instant=block.instant,
        range_val=not block.instant,
    )


def _fields(block: Block) -> dashboard.FieldConfigSource:
    defaults = dashboard.FieldConfig(
        unit=block.unit,
        decimals=block.decimals,
        min_val=block.least,
        max_val=block.most,
        no_value=block.empty,
        thresholds=thresholds(block.steps or ((None, GREEN),)),
        mappings=[mapping(block.words)] if block.words else [],
        color=dashboard.FieldColor(mode=dashboard.FieldColorModeId(block.color)) if block.color else None,
        custom=block.custom,
    )
    overrides = [
        dashboard.DashboardFieldConfigSourceOverrides(
            matcher=matcher, properties=[dashboard.DynamicConfigValue(id_val=key, value=value) for key, value in properties.items()]
        )
        for matcher, properties in block.rules
    ]
    return dashboard.FieldConfigSource(defaults=defaults, overrides=overrides)


def _links() -> dashboard.DashboardLink:
    """The other dashboards, at the time and with the variables of this one."""
    link = dashboard.DashboardLink(
        title="streammetrics",
        type_val=dashboard.DashboardLinkType.DASHBOARDS,
        icon="external link",
        tooltip="The other dashboards, at the same time and with the same choices",
        tags=[TAG],
        as_dropdown=False,
        include_vars=True,
        keep_time=True,
        url="",
    )
    link.placement = None  # type: ignore[assignment]  # in sight, not in a menu
    return link
