"""Panels of *Pipeline* on what flows: input and lag, event time, and what is not used."""

from __future__ import annotations

from grafana.house import Block, Query, dashed, lines, of_query
from grafana.pipeline_limits import ANY_IS_TROUBLE, LIMITS, NO_STATE, NO_WORKER, watermarks
from grafana.queries import by, loop, loop_rate, selector, state, state_rate


def input_panels() -> tuple[Block, ...]:
    """Records read, and how far behind their inputs are."""
    per_input = by("max", ["topic", "partition"], selector("streammetrics_lag_records"))
    return (
        lines(
            "Records per second by topic",
            "Records read and committed, by topic. A topic at 0 while others run has lost its producer.",
            "cps",
            Query(state_rate("streammetrics_events_total", ["topic"]), "{{topic}}"),
            least=0,
            empty=NO_STATE,
            width=8,
        ),
        lines(
            "Lag in records",
            "Records that the inputs have ahead of them, by topic.",
            "short",
            Query(by("sum", ["topic"], per_input), "{{topic}}"),
            least=0,
            empty=NO_WORKER,
            width=8,
        ),
        lines(
            "Lag in seconds",
            "Age of the last record read, of the input that is furthest behind; 0 at the end of an input.",
            "s",
            Query(by("max", ["topic"], selector("streammetrics_lag_seconds")), "{{topic}}"),
            least=0,
            steps=LIMITS["lag_seconds"],
            limits=True,
            empty=NO_WORKER,
            width=8,
        ),
        lines(
            "Lag of every input",
            "Records ahead, by partition: one that grows alone has a slow owner, a hot key or no owner.",
            "short",
            Query(per_input, "{{topic}}/{{partition}}"),
            least=0,
            empty=NO_WORKER,
            height=7,
        ),
        lines(
            "Inputs that wait",
            "Inputs paused because they are ahead in event time of the slowest of their task; normal while catching up.",
            "short",
            Query(loop("streammetrics_paused_inputs", ["instance"]), "{{instance}}"),
            least=0,
            empty=NO_WORKER,
            height=7,
        ),
    )


def event_time_panels() -> tuple[Block, ...]:
    """How far event time is behind now."""
    ends = {view: state("streammetrics_window_end_timestamp_seconds", view=f'="{view}"') for view in ("live", "final")}
    return (
        lines(
            "Watermark delay",
            "How far each topic's slowest watermark is behind now, and what all tasks have come to (dashed), in which silent inputs do not "
            "count. A stalled partition holds all windows back: late, never partial.",
            "s",
            Query(f"time() - {by('min', ['topic'], watermarks())}", "{{topic}}"),
            Query(f"time() - {state('streammetrics_tasks_watermark_timestamp_seconds')}", "all tasks"),
            least=0,
            rules=(dashed("B"),),
            empty=NO_STATE,
            width=8,
        ),
        lines(
            "Window delay",
            "How long before now the shown windows end: live, final (dashed) and of users, counted when visits have ended (dotted).",
            "s",
            *(Query(f"time() - {end}", f"{{{{window}}}} {view}") for view, end in ends.items()),
            Query(f"time() - {state('streammetrics_window_users_end_timestamp_seconds')}", "{{window}} users"),
            least=0,
            rules=(dashed("B"), of_query("C", custom__lineStyle={"fill": "dot", "dash": [2, 10]})),
            empty="No complete window yet",
            width=8,
        ),
        lines(
            "Windows withheld",
            "Windows not shown because some task no longer holds all of their panes, in each interval. Anything above 0 means that "
            "partitions are too far apart.",
            "short",
            Query(state_rate("streammetrics_windows_withheld_total", function="increase"), "withheld"),
            least=0,
            steps=ANY_IS_TROUBLE,
            empty=NO_STATE,
            width=8,
        ),
    )


def refused_panels() -> tuple[Block, ...]:
    """What is read and counts for nothing."""
    refused, read = (state_rate(f"streammetrics_{name}_total", ["topic"]) for name in ("dropped", "events"))
    return (
        lines(
            "Refused by reason",
            "Records refused, per second: malformed in one of several ways, future, late, or beyond a limit. Late ones are in Late too.",
            "cps",
            Query(f"{state_rate('streammetrics_dropped_total', ['reason'])} > 0 or on () {_none_dropped()}", "{{reason}}"),
            least=0,
            stacked=True,
            empty=NO_STATE,
        ),
        lines(
            "Refused by topic",
            "Share of each topic's records that is refused.",
            "percentunit",
            Query(f"{refused} / on (topic) ({read} > 0)", "{{topic}}"),
            least=0,
            steps=LIMITS["dropped"],
            limits=True,
            empty="No records in this time range",
        ),
        lines(
            "Late and repeated",
            "Events older than the watermark allows, and impressions that repeat another one of their session (dashed), per second.",
            "cps",
            Query(state_rate("streammetrics_late_total", ["topic"]), "late, {{topic}}"),
            Query(state_rate("streammetrics_duplicates_total", ["topic"]), "duplicate, {{topic}}"),
            least=0,
            rules=(dashed("B"),),
            empty=NO_STATE,
            width=8,
        ),
        lines(
            "Wrong partition",
            "Events of users whose id does not hash to the partition that they came on, per second: a producer without the user id as key.",
            "cps",
            Query(state_rate("streammetrics_key_mismatch_total", ["topic"]), "{{topic}}"),
            least=0,
            steps=ANY_IS_TROUBLE,
            empty=NO_STATE,
            width=8,
        ),
        lines(
            "Dead letters per second",
            "Refused records written to the dead-letter topic; repeated ones after a crash too.",
            "cps",
            Query(loop_rate("streammetrics_dead_letters_total", ["instance"]), "{{instance}}"),
            least=0,
            empty=NO_WORKER,
            width=8,
        ),
    )


def _none_dropped() -> str:
    """0 for the reason none, while nothing is refused: then there are data all the same."""
    return f'label_replace(0 * {state_rate("streammetrics_dropped_total", [])}, "reason", "none", "", "")'
