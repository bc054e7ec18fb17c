"""Panels of *Pipeline* for input and lag, event time, and refused events."""

from __future__ import annotations

from grafana.panels import Block, Query, dashed, lines, of_query
from grafana.pipeline_parts import LIMITS, NO_STATE, NO_WORKER, third, watermarks
from grafana.queries import by, loop, loop_rate, selector, state, state_rate


def input_panels() -> tuple[Block, ...]:
    """Make the panels for records and lag."""
    per_input = by("max", ["topic", "partition"], selector("streammetrics_lag_records"))
    return (
        third(
            "Records per second by topic",
            "Records read and committed, by topic. If one topic is at 0 and others are not, check its producer.",
            "cps",
            Query(state_rate("streammetrics_events_total", ["topic"]), "{{topic}}"),
            empty=NO_STATE,
        ),
        third(
            "Lag in seconds",
            "Age of the last record read, on the slowest input of the topic; 0 at the end.",
            "s",
            Query(by("max", ["topic"], selector("streammetrics_lag_seconds")), "{{topic}}"),
            steps=LIMITS["lag_seconds"],
            limits=True,
            empty=NO_WORKER,
        ),
        third(
            "Lag in records",
            "Records not read yet, by topic and partition. If only one grows, it has a slow owner, a hot key or no owner. Dashed, right "
            "axis: inputs paused because they are ahead of the slowest input of their task in event time, as while catching up.",
            "short",
            Query(per_input, "{{topic}}/{{partition}}"),
            Query(loop("streammetrics_paused_inputs", ["instance"]), "paused, {{instance}}"),
            rules=(dashed("B"), of_query("B", custom__axisPlacement="right")),
            empty=NO_WORKER,
        ),
    )


def event_time_panels() -> tuple[Block, ...]:
    """Make the panels for delays in event time."""
    ends = {view: state("streammetrics_window_end_timestamp_seconds", view=f'="{view}"') for view in ("live", "final")}
    return (
        third(
            "Watermark delay",
            "Delay of the slowest watermark of each topic, and of the lowest watermark of all tasks (dashed), which ignores idle inputs. "
            "A stalled partition delays all windows.",
            "s",
            Query(f"time() - {by('min', ['topic'], watermarks())}", "{{topic}}"),
            Query(f"time() - {state('streammetrics_tasks_watermark_timestamp_seconds')}", "all tasks"),
            rules=(dashed("B"),),
            empty=NO_STATE,
            width=12,
        ),
        third(
            "Window delay",
            "Delay of the newest windows: live, final (dashed), and of users (dotted), who count after their sessions end. Right axis: "
            "windows not published because a task no longer has all their panes. Then partitions are too far apart in event time.",
            "s",
            *(Query(f"time() - {end}", f"{{{{window}}}} {view}") for view, end in ends.items()),
            Query(f"time() - {state('streammetrics_window_users_end_timestamp_seconds')}", "{{window}} users"),
            Query(state_rate("streammetrics_windows_withheld_total", function="increase"), "windows withheld"),
            rules=(
                dashed("B"),
                of_query("C", custom__lineStyle={"fill": "dot", "dash": [2, 10]}),
                of_query("D", unit="short", custom__axisPlacement="right"),
            ),
            empty="No complete window yet",
            width=12,
        ),
    )


def refused_panels() -> tuple[Block, ...]:
    """Make the panels for refused events."""
    refused, read = (state_rate(f"streammetrics_{name}_total", ["topic"]) for name in ("dropped", "events"))
    exposed, unexposed = (state_rate(f"streammetrics_{name}_total", []) for name in ("lists_exposed", "lists_unexposed"))
    return (
        lines(
            "Refused by reason",
            "Events refused per second, by reason: malformed, future, late or over a limit. Ignored records are no errors: a mapping "
            "says that they hold no event. Right axis: refused records written to the dead-letter topic; after a crash some are written "
            "again.",
            "cps",
            Query(f"{state_rate('streammetrics_dropped_total', ['reason'])} > 0 or on () {_none_dropped()}", "{{reason}}"),
            Query(state_rate("streammetrics_ignored_total", []), "ignored"),
            Query(loop_rate("streammetrics_dead_letters_total", []), "dead letters"),
            least=0,
            stacked=True,
            rules=(of_query("C", custom__axisPlacement="right", custom__fillOpacity=0, custom__stacking={"mode": "none", "group": "A"}),),
            empty=NO_STATE,
        ),
        lines(
            "Refused by topic",
            "Share of refused records by topic.",
            "percentunit",
            Query(f"{refused} / on (topic) ({read} > 0)", "{{topic}}"),
            least=0,
            steps=LIMITS["dropped"],
            limits=True,
            empty="No records in this time range",
        ),
        third(
            "Late, ahead and duplicate",
            "Per second: late events, events that were ahead of all others of their input, and impressions that repeat an earlier one of "
            "their session (dashed). Also lists with the id of another list of their session, and lists in parts of which two items claim "
            "one place: their ranks are not what users saw.",
            "cps",
            Query(state_rate("streammetrics_late_total", ["topic"]), "late, {{topic}}"),
            Query(state_rate("streammetrics_duplicates_total", ["topic"]), "duplicate, {{topic}}"),
            Query(state_rate("streammetrics_events_ahead_total", ["topic"]), "ahead, {{topic}}"),
            Query(state_rate("streammetrics_list_ids_reused_total", ["topic"]), "id of another list, {{topic}}"),
            Query(state_rate("streammetrics_place_conflicts_total", ["topic"]), "two items at one place, {{topic}}"),
            rules=(dashed("B"),),
            empty=NO_STATE,
        ),
        third(
            "Users on several partitions",
            "Share of users with events on several partitions, in a sample. Their feedback may miss its list. "
            "A producer does not use the user id as key, or producers use different partitioners. Dashed, right axis: events per second on "
            "another partition than Kafka's default partitioner gives the user id, which is no problem by itself.",
            "percentunit",
            Query('max (streammetrics_users_on_several_partitions_ratio{job=~"$job"})', "users"),
            Query(state_rate("streammetrics_key_mismatch_total", ["topic"]), "not on the default partition, {{topic}}"),
            rules=(dashed("B"), of_query("B", unit="cps", custom__axisPlacement="right")),
            empty=NO_STATE,
        ),
        third(
            "Exposures",
            "Exposures per second, and the share of lists of ended sessions without any variant (right axis). Only if exposures are on. "
            "A share near 1 means that exposures and lists have different user ids, or that exposures come later than their lists.",
            "cps",
            Query(state_rate("streammetrics_exposures_total", ["topic"]), "exposures, {{topic}}"),
            Query(f"{unexposed} / ({unexposed} + {exposed} > 0)", "lists without a variant"),
            rules=(of_query("B", unit="percentunit", custom__axisPlacement="right"),),
            empty=NO_STATE,
        ),
    )


def _none_dropped() -> str:
    """Return 0 with reason "none", so that the panel has data when nothing is refused."""
    return f'label_replace(0 * {state_rate("streammetrics_dropped_total", [])}, "reason", "none", "", "")'
