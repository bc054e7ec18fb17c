"""Panels of *Pipeline* on who works: commits and Redis, Kafka clients, state and series, processes."""

from __future__ import annotations

from grafana.house import GREEN, ORANGE, RED, Block, Query, dashed, lines, listing, of_field, of_query
from grafana.pipeline_limits import ANY_IS_TROUBLE, LIMITS, NO_NODE, NO_STATE, NO_WORKER
from grafana.queries import by, loop, loop_rate, quantile, selector, state


def commits_panels() -> tuple[Block, ...]:
    """What the store says to commits, and how long it takes."""
    trouble = '=~"fenced|conflict|failed"'
    return (
        lines(
            "Commits per second",
            "Commits by what the store said. already: a repeated one was recognised, which is harmless.",
            "cps",
            Query(loop_rate("streammetrics_commits_total", ["status"]), "{{status}}"),
            least=0,
            empty=NO_WORKER,
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
            empty=NO_WORKER,
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
            "1 while the store serves, 0 while it is tried again.",
            "none",
            Query(loop("streammetrics_store_up", ["instance"], "min"), "{{instance}}"),
            least=0,
            most=1,
            empty="No process is scraped in this job",
            width=8,
        ),
        lines(
            "Memory of Redis",
            "Memory that each server uses, and the most that it may use (dashed). When that is full, commits are refused.",
            "bytes",
            Query(by("max", ["node"], selector("streammetrics_store_memory_bytes")), "{{node}}"),
            Query(f"{by('max', ['node'], selector('streammetrics_store_memory_limit_bytes'))} > 0", "limit of {{node}}"),
            least=0,
            rules=(dashed("B"),),
            empty=NO_NODE,
            width=8,
        ),
        lines(
            "State that Redis may lose",
            "1 where a server may delete keys when memory is short (evicts), or begins empty after a restart (forgets). Both must be 0.",
            "none",
            Query(by("max", ["node"], selector("streammetrics_store_evicts")), "{{node}} evicts"),
            Query(by("max", ["node"], selector("streammetrics_store_forgets")), "{{node}} forgets"),
            least=0,
            most=1,
            steps=ANY_IS_TROUBLE,
            empty=NO_NODE,
            width=8,
        ),
    )


def clients_panels() -> tuple[Block, ...]:
    """How workers and brokers get on."""
    return (
        lines(
            "Rebalances",
            "Changes of the tasks that a worker owns, in each interval. Many in a row: members come and go, or take too long.",
            "short",
            Query(loop_rate("streammetrics_rebalances_total", ["instance"], function="increase"), "{{instance}}"),
            least=0,
            empty=NO_WORKER,
            width=8,
        ),
        lines(
            "Client rebuilds",
            "Kafka clients replaced because they had gone deaf, in each interval. Once is a network; often is a fault to report.",
            "short",
            Query(loop_rate("streammetrics_client_rebuilds_total", ["instance"], function="increase"), "{{instance}}"),
            least=0,
            steps=ANY_IS_TROUBLE,
            empty=NO_WORKER,
            width=8,
        ),
        lines(
            "Kafka, as each worker sees it",
            "1 while the event source serves, 0 while it is tried again.",
            "none",
            Query(loop("streammetrics_source_up", ["instance"], "min"), "{{instance}}"),
            least=0,
            most=1,
            empty=NO_WORKER,
            width=8,
        ),
    )


def state_panels() -> tuple[Block, ...]:
    """How much is kept and shown."""
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
            empty=NO_STATE,
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
            "Series folded into _other or left out now, and (dashed) in each interval: senders name more values than the limits allow.",
            "short",
            Query(loop("streammetrics_series_left_out", ["instance"], "max"), "{{instance}}"),
            Query(loop_rate("streammetrics_series_folded_total", ["instance"], function="increase"), "{{instance}} anew"),
            least=0,
            rules=(dashed("B"),),
            steps=ANY_IS_TROUBLE,
            empty="No process is scraped in this job",
            width=8,
        ),
    )


def processes_panels() -> tuple[Block, ...]:
    """What each process needs."""
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
            steps=LIMITS["series"],
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
