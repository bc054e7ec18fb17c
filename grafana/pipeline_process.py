"""Panels of *Pipeline* for commits and Redis, Kafka clients, state and series, and processes."""

from __future__ import annotations

from grafana.panels import GREEN, ORANGE, RED, Block, Query, dashed, listing, of_field, of_query
from grafana.pipeline_parts import LIMITS, NO_NODE, NO_PROCESS, NO_STATE, NO_WORKER, ZERO_IS_GOOD, third
from grafana.queries import by, loop, loop_rate, quantile, selector, state, state_rate


def commits_panels() -> tuple[Block, ...]:
    """Make the panels for commits, Redis and Kafka clients."""
    return (
        third(
            "Commits per second",
            "Commits per second by result. already: a repeated commit was recognised, which is harmless. fenced: the task has a new owner. "
            "conflict: Redis has unexpected state, and the worker goes back to it. failed: Redis did not answer.",
            "cps",
            Query(loop_rate("streammetrics_commits_total", ["status"]), "{{status}}"),
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
            "State written per event",
            "Bytes of state that commits wrote for each event read. It does not grow with the length of sessions; many experiments, "
            "segments or metrics raise it, and so do few events per commit.",
            "bytes",
            Query(
                f"{loop_rate('streammetrics_state_written_bytes_total', [])} / ({state_rate('streammetrics_events_total', [])} > 0)",
                "per event",
            ),
            empty=NO_WORKER,
        ),
        third(
            "Servers, as each process sees them",
            "1 if the server answers, 0 while the process retries it: Kafka, Redis, and the schema registry while inputs wait for it.",
            "none",
            Query(loop("streammetrics_source_up", ["instance"], "min"), "Kafka, {{instance}}"),
            Query(loop("streammetrics_store_up", ["instance"], "min"), "Redis, {{instance}}"),
            Query(loop("streammetrics_registry_up", ["instance"], "min"), "registry, {{instance}}"),
            most=1,
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
        ),
        third(
            "Redis settings that lose state",
            "1 if a server may delete state when memory is full (evicts) or loses it at a restart (forgets). Both must be 0.",
            "none",
            Query(by("max", ["node"], selector("streammetrics_store_evicts")), "{{node}} evicts"),
            Query(by("max", ["node"], selector("streammetrics_store_forgets")), "{{node}} forgets"),
            most=1,
            steps=ZERO_IS_GOOD,
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
        ),
        third(
            "Series and their limit",
            "Series on the /metrics of each process, and the limit (dashed).",
            "short",
            Query(loop("streammetrics_series", ["instance"], "max"), "{{instance}}"),
            Query(loop("streammetrics_series_limit", [], "min"), "limit"),
            rules=(of_query("B", custom__lineStyle={"fill": "dash", "dash": [10, 10]}, color={"mode": "fixed", "fixedColor": RED}),),
            empty=NO_PROCESS,
        ),
        third(
            "Series folded or left out",
            "Series folded into _other or left out: now, and increases per interval (dashed). Senders use too many label values.",
            "short",
            Query(loop("streammetrics_series_left_out", ["instance"], "max"), "{{instance}}"),
            Query(loop_rate("streammetrics_series_folded_total", ["instance"], function="increase"), "{{instance}} new"),
            rules=(dashed("B"),),
            steps=ZERO_IS_GOOD,
            empty=NO_PROCESS,
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
        ),
        third(
            "Memory",
            "Resident memory of each process.",
            "bytes",
            Query(loop("process_resident_memory_bytes", ["instance"]), "{{instance}}"),
            empty=NO_PROCESS,
        ),
        third(
            "Open files",
            "Open file descriptors of each process as a share of its limit.",
            "percentunit",
            Query(
                f"{loop('process_open_fds', ['instance'])} / {loop('process_max_fds', ['instance'])}",
                "{{instance}}",
            ),
            steps=LIMITS["series"],
            empty=NO_PROCESS,
        ),
    )


def outgoing_panels() -> tuple[Block, ...]:
    """Make the panels for what leaves the processes: webhook messages, records and files of results."""
    return (
        third(
            "Webhook messages",
            "Messages about changed verdicts by outcome: sent, failed (tries) and given up. Empty without webhook.url.",
            "cps",
            Query(loop_rate("streammetrics_webhooks_total", ["status"]), "{{status}}"),
            empty="No process has a webhook",
        ),
        third(
            "Webhook changes waiting",
            "Changed verdicts that no receiver has taken yet, and how long the oldest has waited (right axis). They are sent in order, and "
            "tried again for webhook.give_up_ms.",
            "short",
            Query(loop("streammetrics_webhooks_waiting", [], "max"), "waiting"),
            Query(f"time() - {loop('streammetrics_webhooks_oldest_timestamp_seconds', [], 'min')}", "oldest"),
            rules=(of_query("B", unit="s", custom__axisPlacement="right"),),
            empty="No process has a webhook",
        ),
        third(
            "Results sent",
            "Records of final panes and verdicts sent to kafka.results_topic, and failed writes. Failed records are sent again.",
            "cps",
            Query(loop_rate("streammetrics_results_total", ["status"]), "{{status}}"),
            empty="No process has kafka.results_topic",
        ),
        third(
            "Result files",
            "Files in results.directory by outcome: written, unchanged (found with the same content) and failed tries. Right axis: rows "
            "in the files that were written.",
            "cps",
            Query(loop_rate("streammetrics_result_files_total", ["status"]), "{{status}}"),
            Query(loop_rate("streammetrics_result_rows_total", []), "rows"),
            rules=(of_query("B", custom__axisPlacement="right"),),
            empty="No process has results.directory",
            width=12,
        ),
        third(
            "Result files behind",
            "Event time of final panes that are in no file yet. It grows to results.file_ms. More means that the disk fails: see the log.",
            "s",
            Query(loop("streammetrics_result_files_lag_seconds", [], "max"), "behind"),
            empty="No process has results.directory",
            width=12,
        ),
    )


def _version_panels() -> tuple[Block, ...]:
    """Make the panels for versions, deploys and alerts."""
    started = f"time() - {selector('process_start_time_seconds')}"
    version = by("max", ["instance", "version"], selector("streammetrics_build_info"))
    marked = by("max", ["text", "kind", "experiment"], selector("streammetrics_mark_timestamp_seconds"))
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
        listing(
            "Deploys and alerts",
            "What was posted to /api/marks, the newest first. Deploys are also marked on the curves.",
            {"text": "What", "kind": "Kind", "experiment": "Experiment", "B": "Ago"},
            Query(marked),
            Query(f"time() - {marked}"),
            sort=("Ago", False),
            rules=(of_field("Ago", unit="s", decimals=0),),
            empty="Nothing was posted to /api/marks",
            width=24,
            height=7,
        ),
    )
