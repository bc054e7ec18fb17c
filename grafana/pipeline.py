"""The dashboard *Pipeline*: input, lag, event time, commits, refused events, stores and processes."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard

from grafana import variables
from grafana.layout import Section, build
from grafana.panels import (
    GREEN,
    RED,
    YELLOW,
    Block,
    Query,
    number,
)
from grafana.pipeline_flow import event_time_panels, input_panels, refused_panels
from grafana.pipeline_parts import LIMITS, NO_PROCESS, NO_STATE, NO_WORKER, UP, UP_STEPS, watermarks
from grafana.pipeline_process import commits_panels, outgoing_panels, processes_panels, state_panels
from grafana.queries import by, loop, selector, state_rate

UID = "streammetrics-pipeline"


def pipeline() -> dashboard.Dashboard:
    """Build the dashboard."""
    return build(
        uid=UID,
        title="streammetrics / Pipeline",
        description="Health of streammetrics: input, lag, watermark, commits, refused events, stores and processes.",
        variables=[variables.datasource(), variables.job()],
        annotations=variables.marks(),
        since="now-6h",
        sections=[
            Section(title="Overview", blocks=_glance()),
            Section(title="Input and lag", blocks=input_panels()),
            Section(title="Event time", blocks=event_time_panels()),
            Section(title="Commits, Redis and Kafka clients", blocks=commits_panels()),
            Section(title="Refused events", blocks=refused_panels()),
            Section(title="State and series", blocks=state_panels()),
            Section(title="Processes", blocks=processes_panels()),
            Section(title="Results topic, if configured", blocks=outgoing_panels(), collapsed=True),
        ],
    )


def _glance() -> tuple[Block, ...]:
    lag = by("max", [], selector("streammetrics_lag_seconds"))
    behind = f"time() - {by('min', [], watermarks())}"
    return (
        number(
            "Servers",
            "up if every process reaches the server; down while one retries.",
            "none",
            Query(loop("streammetrics_source_up", [], "min"), "Kafka"),
            Query(loop("streammetrics_store_up", [], "min"), "Redis"),
            words=UP,
            steps=UP_STEPS,
            empty=NO_PROCESS,
            filled=True,
            width=6,
        ),
        number(
            "Records",
            "Records read per second, over all topics.",
            "cps",
            Query(state_rate("streammetrics_events_total", []), "records"),
            decimals=1,
            empty=NO_STATE,
            width=3,
        ),
        number(
            "Lag",
            "Age of the last record read, on the slowest input; 0 at the end of all inputs.",
            "s",
            Query(lag, "lag"),
            decimals=1,
            steps=LIMITS["lag_seconds"],
            empty=NO_WORKER,
            width=3,
        ),
        number(
            "Watermark",
            "Delay of the slowest watermark. It grows while an input stalls, and on a quiet topic up to the idle time.",
            "s",
            Query(behind, "behind"),
            decimals=0,
            steps=((None, GREEN), (300, YELLOW), (1_800, RED)),
            empty=NO_STATE,
            width=3,
        ),
        number(
            "Refused",
            "Share of records refused: malformed, future, late or over a limit.",
            "percentunit",
            Query(f"{state_rate('streammetrics_dropped_total', [])} / ({state_rate('streammetrics_events_total', [])} > 0)", "refused"),
            decimals=2,
            steps=LIMITS["dropped"],
            empty="no records",
            width=3,
        ),
        number(
            "Series used",
            "Series of the fullest process as a share of its limit. Series over the limit are left out.",
            "percentunit",
            Query(by("max", [], f"{selector('streammetrics_series')} / {selector('streammetrics_series_limit')}"), "used"),
            decimals=1,
            steps=LIMITS["series"],
            empty=NO_PROCESS,
            width=3,
        ),
        number(
            "Processes",
            "Processes that Prometheus can scrape.",
            "short",
            Query(loop("up", []), "processes"),
            steps=((None, RED), (1, GREEN)),
            empty="none",
            width=3,
        ),
    )
