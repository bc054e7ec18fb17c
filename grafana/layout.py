"""Rows of panels on a grid -> a dashboard of Grafana's SDK. Knows no series.

The SDK assigns no ids, so they are assigned here. The id of a panel is 100 times the number of its row plus its place there, so an
added panel changes few ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.models import common, dashboard, prometheus

from grafana.panels import GREEN, LETTERS, Block, Query, mapping, thresholds

SCHEMA_VERSION: Final = 39
"""The schema of Grafana 10.4 to 11. Older versions can read it, newer ones migrate it."""
TAG: Final = "streammetrics"
GRID_COLUMNS: Final = 24
ROW_IDS: Final = 100
SOURCE: Final = common.DataSourceRef(type_val="prometheus", uid="${datasource}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A row of the dashboard with its panels. A collapsed row sends no queries until it is opened.

    repeat: the variable for each of whose values Grafana shows the row.
    """

    title: str
    blocks: tuple[Block, ...]
    collapsed: bool = False
    repeat: str | None = None


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
    """Make the dashboard, with every panel at its place on the grid."""
    panels: list[dashboard.Panel | dashboard.RowPanel] = []
    y = 0
    for number_, section in enumerate(sections, start=1):
        row = dashboard.RowPanel(
            title=section.title,
            collapsed=section.collapsed,
            repeat=section.repeat,
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
    """Place panels from left to right, then down. Also return the y below all of them."""
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
    """Return the link to the other dashboards, with the time range and variables of this one."""
    link = dashboard.DashboardLink(
        title="streammetrics",
        type_val=dashboard.DashboardLinkType.DASHBOARDS,
        icon="external link",
        tooltip="The other dashboards, with the same time range and choices",
        tags=[TAG],
        as_dropdown=False,
        include_vars=True,
        keep_time=True,
        url="",
    )
    link.placement = None  # type: ignore[assignment]  # visible, not in a menu
    return link
