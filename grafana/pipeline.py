"""The dashboard *Pipeline*: is it alive, does it keep up, what does it drop, and what does it need."""

from __future__ import annotations

from grafana import variables
from grafana.house import (
    GREEN,
    ORANGE,
    RED,
    YELLOW,
    Block,
    Query,
    Section,
    Steps,
    build,
    dashed,
    lines,
    listing,
    number,
    of_field,
    of_query,
)
from grafana.queries import by, loop, loop_rate, quantile, selector, state, state_rate
from grafana.sdk import dashboard

UID = "streammetrics-pipeline"

_UP = {"1": ("up", GREEN), "0": ("down", RED)}
_UP_STEPS: Steps = ((None, RED), (1, GREEN))
_ALL_TROUBLE: Steps = ((None, GREEN), (0.000001, RED))
_NO_WORKER = "No process here consumes: is a worker scraped in this job?"
_NO_STATE = "No process shows committed state: is an exporter scraped in this job?"
_LIMITS: dict[str, Steps] = {
    "lag_seconds": ((None, GREEN), (60, YELLOW), (300, RED)),
    "dropped": ((None, GREEN), (0.01, YELLOW), (0.05, RED)),
    "series": ((None, GREEN), (0.8, YELLOW), (0.95, RED)),
    "restarts": ((None, YELLOW), (600, GREEN)),
}
"""From where on a number is worth a look, and a worry. For the eye; what pages has its own table."""


def pipeline() -> dashboard.Dashboard:
    """The whole dashboard."""
    return build(
        uid=UID,
        title="streammetrics / Pipeline",
        description="Whether streammetrics lives, keeps up and drops nothing: input, lag, watermark, commits, refusals, stores, processes.",
        variables=[variables.datasource(), variables.job()],
        annotations=variables.marks(),
        since="now-6h",
        sections=[
            Section(title="At a glance", blocks=_glance()),
            Section(title="Input and lag", blocks=_input()),
            Section(title="Event time", blocks=_event_time()),
            Section(title="Commits and Redis", blocks=_commits()),
            Section(title="Kafka clients", blocks=_clients()),
            Section(title="What is not used", blocks=_refused()),
            Section(title="State and series", blocks=_state()),
            Section(title="Processes", blocks=_processes()),
        ],
    )


def _glance() -> tuple[Block, ...]:
    lag = by("max", [], selector("streammetrics_lag_seconds"))
    behind = f"time() - {by('min', [], _watermarks())}"
    return (
        number(
            "Kafka",
            "Whether every worker reads its inputs; down while one tries again.",
            "none",
            Query(loop("streammetrics_source_up", [], "min"), "Kafka"),
            words=_UP,
            steps=_UP_STEPS,
            empty=_NO_WORKER,
            filled=True,
            width=3,
        ),
        number(
            "Redis",
            "Whether every process reaches its store; down while one tries again.",
            "none",
            Query(loop("streammetrics_store_up", [], "min"), "Redis"),
            words=_UP,
            steps=_UP_STEPS,
            empty="No process is scraped in this job",
            filled=True,
            width=3,
        ),
        number(
            "Records",
            "Records read per second, all topics together.",
            "cps",
            Query(state_rate("streammetrics_events_total", []), "records"),
            decimals=1,
            empty=_NO_STATE,
            width=3,
        ),
        number(
            "Lag",
            "Age of the oldest last-read record of any input; 0 at the end of all.",
            "s",
            Query(lag, "lag"),
            decimals=1,
            steps=_LIMITS["lag_seconds"],
            empty=_NO_WORKER,
            width=3,
        ),
        number(
            "Watermark",
            "How far the slowest input's watermark is behind now. Grows while an input stalls, and on a quiet topic up to the idle time.",
            "s",
            Query(behind, "behind"),
            decimals=0,
            steps=((None, GREEN), (300, YELLOW), (1_800, RED)),
            empty=_NO_STATE,
            width=3,
        ),
        number(
            "Refused",
            "Share of records refused: malformed, future, late or beyond a limit.",
            "percentunit",
            Query(f"{state_rate('streammetrics_dropped_total', [])} / ({state_rate('streammetrics_events_total', [])} > 0)", "refused"),
            decimals=2,
            steps=_LIMITS["dropped"],
            empty="no records",
            width=3,
        ),
        number(
            "Series used",
            "The fullest page by its limit; beyond it, series are folded or left out.",
            "percentunit",
            Query(by("max", [], f"{selector('streammetrics_series')} / {selector('streammetrics_series_limit')}"), "used"),
            decimals=1,
            steps=_LIMITS["series"],
            empty="No process is scraped in this job",
            width=3,
        ),
        number(
            "Processes",
            "Processes that Prometheus reaches.",
            "short",
            Query(loop("up", []), "processes"),
            steps=((None, RED), (1, GREEN)),
            empty="none",
            width=3,
        ),
    )


def _input() -> tuple[Block, ...]:
    per_input = by("max", ["topic", "partition"], selector("streammetrics_lag_records"))
    return (
        lines(
            "Records per second by topic",
            "Records read and committed, by topic. A topic at 0 while others run has lost its producer.",
            "cps",
            Query(state_rate("streammetrics_events_total", ["topic"]), "{{topic}}"),
            least=0,
            empty=_NO_STATE,
            width=8,
        ),
        lines(
            "Lag in records",
            "Records that the inputs have ahead of them, by topic.",
            "short",
            Query(by("sum", ["topic"], per_input), "{{topic}}"),
            least=0,
            empty=_NO_WORKER,
            width=8,
        ),
        lines(
            "Lag in seconds",
            "Age of the last record read, of the input that is furthest behind; 0 at the end of an input.",
            "s",
            Query(by("max", ["topic"], selector("streammetrics_lag_seconds")), "{{topic}}"),
            least=0,
            steps=_LIMITS["lag_seconds"],
            limits=True,
            empty=_NO_WORKER,
            width=8,
        ),
        lines(
            "Lag of every input",
            "Records ahead, by partition: one that grows alone has a slow owner, a hot key or no owner.",
            "short",
            Query(per_input, "{{topic}}/{{partition}}"),
            least=0,
            empty=_NO_WORKER,
            height=7,
        ),
        lines(
            "Inputs that wait",
            "Inputs paused because they are ahead in event time of the slowest of their task; normal while catching up.",
            "short",
            Query(loop("streammetrics_paused_inputs", ["instance"]), "{{instance}}"),
            least=0,
            empty=_NO_WORKER,
            height=7,
        ),
    )


def _event_time() -> tuple[Block, ...]:
    ends = {view: state("streammetrics_window_end_timestamp_seconds", view=f'="{view}"') for view in ("live", "final")}
    return (
        lines(
            "Watermark delay",
            "How far each topic's slowest watermark is behind now. A stalled partition holds all windows back: late, never partial.",
            "s",
            Query(f"time() - {by('min', ['topic'], _watermarks())}", "{{topic}}"),
            least=0,
            empty=_NO_STATE,
            width=8,
        ),
        lines(
            "Window delay",
            "How long before now the shown windows end, live and final (dashed).",
            "s",
            *(Query(f"time() - {end}", f"{{{{window}}}} {view}") for view, end in ends.items()),
            least=0,
            rules=(dashed("B"),),
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
            steps=_ALL_TROUBLE,
            empty=_NO_STATE,
            width=8,
        ),
    )


def _commits() -> tuple[Block, ...]:
    trouble = '=~"fenced|conflict|failed"'
    return (
        lines(
            "Commits per second",
            "Commits by what the store said. already: a repeated one was recognised, which is harmless.",
            "cps",
            Query(loop_rate("streammetrics_commits_total", ["status"]), "{{status}}"),
            least=0,
            empty=_NO_WORKER,
            width=8,
        ),
        lines(
            "Commits refused or failed",
            "fenced: the task has a new owner. conflict: Redis lost a suffix or the state is another's; the worker rewinds. failed: Redis "
            "could not be reached.",
            "short",
            Query(
                loop_rate("streammetrics_commits_total", ["status"], function="increase", status=trouble),
                "{{status}}",
            ),
            least=0,
            empty=_NO_WORKER,
            width=8,
        ),
        lines(
            "Time of a commit",
            "Of all workers: half of the commits were faster than the lower line, 99 of 100 faster than the upper.",
            "s",
            Query(quantile(0.5, "streammetrics_commit_seconds"), "half"),
            Query(quantile(0.99, "streammetrics_commit_seconds"), "99 %"),
            least=0,
            reach=0.001,
            empty="No commits in this time range",
            width=8,
        ),
        lines(
            "Redis, as each process sees it",
            "1 while the store serves, 0 while it is tried again. Redis's own memory and eviction are shown by an exporter of Redis.",
            "none",
            Query(loop("streammetrics_store_up", ["instance"], "min"), "{{instance}}"),
            least=0,
            most=1,
            empty="No process is scraped in this job",
            width=24,
            height=5,
        ),
    )


def _clients() -> tuple[Block, ...]:
    return (
        lines(
            "Rebalances",
            "Changes of the tasks that a worker owns, in each interval. Many in a row: members come and go, or take too long.",
            "short",
            Query(loop_rate("streammetrics_rebalances_total", ["instance"], function="increase"), "{{instance}}"),
            least=0,
            empty=_NO_WORKER,
            width=8,
        ),
        lines(
            "Client rebuilds",
            "Kafka clients replaced because they had gone deaf, in each interval. Once is a network; often is a fault to report.",
            "short",
            Query(loop_rate("streammetrics_client_rebuilds_total", ["instance"], function="increase"), "{{instance}}"),
            least=0,
            steps=_ALL_TROUBLE,
            empty=_NO_WORKER,
            width=8,
        ),
        lines(
            "Kafka, as each worker sees it",
            "1 while the event source serves, 0 while it is tried again.",
            "none",
            Query(loop("streammetrics_source_up", ["instance"], "min"), "{{instance}}"),
            least=0,
            most=1,
            empty=_NO_WORKER,
            width=8,
        ),
    )


def _refused() -> tuple[Block, ...]:
    refused, read = (state_rate(f"streammetrics_{name}_total", ["topic"]) for name in ("dropped", "events"))
    return (
        lines(
            "Refused by reason",
            "Records refused, per second: malformed in one of several ways, future, late, or beyond a limit. Late ones are in Late too.",
            "cps",
            Query(f"{state_rate('streammetrics_dropped_total', ['reason'])} > 0 or on () {_none_dropped()}", "{{reason}}"),
            least=0,
            stacked=True,
            empty=_NO_STATE,
        ),
        lines(
            "Refused by topic",
            "Share of each topic's records that is refused.",
            "percentunit",
            Query(f"{refused} / on (topic) ({read} > 0)", "{{topic}}"),
            least=0,
            steps=_LIMITS["dropped"],
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
            empty=_NO_STATE,
            width=8,
        ),
        lines(
            "Wrong partition",
            "Events of users whose id does not hash to the partition that they came on, per second: a producer without the user id as key.",
            "cps",
            Query(state_rate("streammetrics_key_mismatch_total", ["topic"]), "{{topic}}"),
            least=0,
            steps=_ALL_TROUBLE,
            empty=_NO_STATE,
            width=8,
        ),
        lines(
            "Dead letters per second",
            "Refused records written to the dead-letter topic; repeated ones after a crash too.",
            "cps",
            Query(loop_rate("streammetrics_dead_letters_total", ["instance"]), "{{instance}}"),
            least=0,
            empty=_NO_WORKER,
            width=8,
        ),
    )


def _state() -> tuple[Block, ...]:
    return (
        lines(
            "Users and sessions",
            "Users with an open session and their sessions, in Redis; users held in the memory of workers (dashed).",
            "short",
            Query(state("streammetrics_users_open"), "users"),
            Query(state("streammetrics_open_sessions"), "sessions"),
            Query(loop("streammetrics_cached_users", []), "users in memory"),
            least=0,
            rules=(dashed("C"),),
            empty=_NO_STATE,
            width=8,
        ),
        lines(
            "Series by their limit",
            "Series of each process's page, and the most that it may have (dashed).",
            "short",
            Query(loop("streammetrics_series", ["instance"], "max"), "{{instance}}"),
            Query(loop("streammetrics_series_limit", [], "min"), "limit"),
            least=0,
            rules=(of_query("B", custom__lineStyle={"fill": "dash", "dash": [10, 10]}, color={"mode": "fixed", "fixedColor": RED}),),
            empty="No process is scraped in this job",
            width=8,
        ),
        lines(
            "Series folded",
            "Series folded into _other or left out, in each interval: senders name more values than the limits allow.",
            "short",
            Query(loop_rate("streammetrics_series_folded_total", ["instance"], function="increase"), "{{instance}}"),
            least=0,
            steps=_ALL_TROUBLE,
            empty="No process is scraped in this job",
            width=8,
        ),
    )


def _processes() -> tuple[Block, ...]:
    started = f"time() - {selector('process_start_time_seconds')}"
    version = by("max", ["instance", "version"], selector("streammetrics_build_info"))
    return (
        lines(
            "CPU",
            "Cores in use by each process. A worker near 1 is at its end: add workers, up to the number of partitions.",
            "short",
            Query(loop_rate("process_cpu_seconds_total", ["instance"]), "{{instance}}"),
            least=0,
            steps=((None, GREEN), (0.8, ORANGE)),
            limits=True,
            empty="No process is scraped in this job",
            width=8,
        ),
        lines(
            "Memory",
            "Resident memory of each process.",
            "bytes",
            Query(loop("process_resident_memory_bytes", ["instance"]), "{{instance}}"),
            least=0,
            empty="No process is scraped in this job",
            width=8,
        ),
        lines(
            "Open files",
            "Open file descriptors of each process, by the most that it may have.",
            "percentunit",
            Query(
                f"{loop('process_open_fds', ['instance'])} / {loop('process_max_fds', ['instance'])}",
                "{{instance}}",
            ),
            least=0,
            steps=_LIMITS["series"],
            empty="No process is scraped in this job",
            width=8,
        ),
        listing(
            "Versions",
            "Each process with its version, for how long it runs, and how many partitions the namespace has.",
            {"instance": "Process", "version": "Version", "B": "Running for", "C": "Tasks"},
            Query(version),
            Query(f"{version} * on (instance) group_left () {by('max', ['instance'], started)}"),
            Query(f"{version} * on () group_left () {state('streammetrics_tasks')}"),
            sort=("Process", False),
            rules=(
                of_field("Running for", unit="s", decimals=0),
                of_field("Tasks", unit="short"),
            ),
            empty="No process is scraped in this job",
            width=24,
            height=7,
        ),
    )


def _watermarks() -> str:
    return state("streammetrics_watermark_timestamp_seconds")


def _none_dropped() -> str:
    """0 for the reason none, while nothing is refused: then there are data all the same."""
    return f'label_replace(0 * {state_rate("streammetrics_dropped_total", [])}, "reason", "none", "", "")'
