"""Panels of *Pipeline* for commits and Redis, Kafka clients, state and series, and processes."""

from __future__ import annotations

from grafana.panels import GREEN, ORANGE, RED, Block, Query, dashed, fixed, listing, of_field, of_query
from grafana.pipeline_parts import NO_NODE, NO_PROCESS, NO_STATE, NO_WORKER, third
from grafana.queries import by, loop, loop_rate, quantile, selector, state, state_rate


def commits_panels() -> tuple[Block, ...]:
    """Make the panels for commits, Redis and Kafka clients."""
    return (
        third(
            "Commits per second",
            "Commits per second by result. already: a repeated commit was recognised, which is harmless. fenced: the task has a new owner. "
            "conflict: Redis has unexpected state, and the worker goes back to it. failed: Redis did not answer. Right axis: bytes of "
            "state written for each event read. Many experiments, segments or metrics raise it, and so do few events per commit.",
            "cps",
            Query(loop_rate("streammetrics_commits_total", ["status"]), "{{status}}"),
            Query(
                f"{loop_rate('streammetrics_state_written_bytes_total', [])} / ({state_rate('streammetrics_events_total', [])} > 0)",
                "written per event",
            ),
            rules=(of_query("B", unit="bytes", custom__axisPlacement="right"),),
            empty=NO_WORKER,
        ),
        third(
            "Duration of a commit",
            "Median and 99th percentile over all workers.",
            "s",
            Query(quantile(0.5, "streammetrics_commit_seconds"), "median"),
            Query(quantile(0.99, "streammetrics_commit_seconds"), "99 %"),
            soft_max=0.001,
            empty="No commits in this time range",
        ),
        third(
            "Servers, as each process sees them",
            "1 if the server answers, 0 while the process retries it: Kafka, Redis, and the schema registry while inputs wait for it. "
            "Dashed: 0 if a server of Redis may delete state when memory is full (does not evict), or loses it at a restart (remembers).",
            "none",
            Query(loop("streammetrics_source_up", ["instance"], "min"), "Kafka, {{instance}}"),
            Query(loop("streammetrics_store_up", ["instance"], "min"), "Redis, {{instance}}"),
            Query(loop("streammetrics_registry_up", ["instance"], "min"), "registry, {{instance}}"),
            Query(f"1 - {by('max', ['node'], selector('streammetrics_store_evicts'))}", "{{node}} does not evict"),
            Query(f"1 - {by('max', ['node'], selector('streammetrics_store_forgets'))}", "{{node}} remembers"),
            most=1,
            rules=(dashed("D"), dashed("E")),
            empty=NO_PROCESS,
        ),
        third(
            "Memory of Redis",
            "Memory used by each server, and its limit (dashed). At the limit, Redis refuses commits.",
            "bytes",
            Query(by("max", ["node"], selector("streammetrics_store_memory_bytes")), "{{node}}"),
            Query(f"{by('max', ['node'], selector('streammetrics_store_memory_limit_bytes'))} > 0", "limit of {{node}}"),
            rules=(dashed("B"),),
            empty=NO_NODE,
            width=12,
        ),
        third(
            "Rebalances and client rebuilds",
            "Changes of the tasks that a worker owns, per interval. Many in a row mean that members restart or are too slow. Dashed: Kafka "
            "clients replaced because they stalled. Once can be the network; often is a fault to report.",
            "short",
            Query(loop_rate("streammetrics_rebalances_total", ["instance"], function="increase"), "{{instance}}"),
            Query(loop_rate("streammetrics_client_rebuilds_total", ["instance"], function="increase"), "rebuilds, {{instance}}"),
            rules=(dashed("B"),),
            empty=NO_WORKER,
            width=12,
        ),
    )


def state_panels() -> tuple[Block, ...]:
    """Make the panels for state and series."""
    return (
        third(
            "Users and sessions",
            "Users with an open session, their open sessions, and users cached in memory (dashed).",
            "short",
            Query(state("streammetrics_users_open"), "users"),
            Query(state("streammetrics_open_sessions"), "sessions"),
            Query(loop("streammetrics_cached_users", []), "cached users"),
            rules=(dashed("C"),),
            empty=NO_STATE,
            width=12,
        ),
        third(
            "Series and their limit",
            "Series on the /metrics of each process, and the limit (dashed). Right axis: series folded into _other or left out now, and "
            "increases per interval (dashed). Then senders use too many label values.",
            "short",
            Query(loop("streammetrics_series", ["instance"], "max"), "{{instance}}"),
            Query(loop("streammetrics_series_limit", [], "min"), "limit"),
            Query(loop("streammetrics_series_left_out", ["instance"], "max"), "{{instance}}, left out"),
            Query(loop_rate("streammetrics_series_folded_total", ["instance"], function="increase"), "{{instance}}, newly left out"),
            rules=(
                dashed("B"),
                of_query("B", color=fixed(RED)),
                dashed("D"),
                *(of_query(letter, custom__axisPlacement="right") for letter in "CD"),
            ),
            empty=NO_PROCESS,
            width=12,
        ),
    )


def processes_panels() -> tuple[Block, ...]:
    """Make the panels for processes."""
    return (*_resource_panels(), *_version_panels())


def _resource_panels() -> tuple[Block, ...]:
    """Make the panels for what the processes use."""
    return (
        third(
            "CPU",
            "Cores in use by each process. A worker near 1 is at its limit. Add workers, up to the number of partitions.",
            "short",
            Query(loop_rate("process_cpu_seconds_total", ["instance"]), "{{instance}}"),
            steps=((None, GREEN), (0.8, ORANGE)),
            limits=True,
            empty=NO_PROCESS,
            width=12,
        ),
        third(
            "Memory",
            "Resident memory of each process.",
            "bytes",
            Query(loop("process_resident_memory_bytes", ["instance"]), "{{instance}}"),
            empty=NO_PROCESS,
            width=12,
        ),
    )


def outgoing_panels() -> tuple[Block, ...]:
    """Make the panel for the records of results that leave the processes."""
    return (
        third(
            "Results sent",
            "Records of final panes and verdicts sent to kafka.results_topic, and failed writes. Failed records are sent again.",
            "cps",
            Query(loop_rate("streammetrics_results_total", ["status"]), "{{status}}"),
            empty="No process has kafka.results_topic",
        ),
    )


def _version_panels() -> tuple[Block, ...]:
    """Make the table of versions."""
    started = f"time() - {selector('process_start_time_seconds')}"
    version = by("max", ["instance", "version"], selector("streammetrics_build_info"))
    return (
        listing(
            "Versions",
            "Version and uptime of each process, and the number of tasks of the namespace.",
            {"instance": "Process", "version": "Version", "B": "Running for", "C": "Tasks"},
            Query(version),
            Query(f"{version} * on (instance) group_left () {by('max', ['instance'], started)}"),
            Query(f"{version} * on () group_left () {state('streammetrics_tasks')}"),
            sort=("Process", False),
            rules=(
                of_field("Running for", unit="s", decimals=0),
                of_field("Tasks", unit="short"),
            ),
            empty=NO_PROCESS,
            width=24,
            height=7,
        ),
    )
