"""`namespaces` as its user sees it: a table of what lies in the store, and one namespace deleted after a word from the operator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import click
from rich.filesize import decimal
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from streammetrics.cli.output.progress import progress_bar
from streammetrics.cli.output.terminal import FittingTable, output_console
from streammetrics.cli.process.logs import configure_quiet_logs
from streammetrics.cli.wiring import redis_connection
from streammetrics.config import Settings
from streammetrics.connectors.redis.namespaces import Namespace, Noticed, RedisNamespaces
from streammetrics.errors import StreammetricsError


def list_namespaces(settings: Settings) -> None:
    """Print every namespace of the store with its tasks, keys, bytes and who is at work in it. Raises StoreError."""
    configure_quiet_logs(settings.log.level, settings.log.format)
    with closing(RedisNamespaces(redis_connection(settings))) as store:
        found = _find(store)
        with _progress("measure") as noticed:
            for number, namespace in enumerate(found, 1):
                store.measure(namespace)
                noticed(number, len(found))
        processes = store.processes()
    if not found:
        click.echo(f"no namespace in Redis at {store.settings.place}")
        return
    table = FittingTable(("namespace",), ("tasks", "keys", "memory"), ("in use by",), apart=False)
    for one in found:
        tasks = "unknown" if one.tasks is None else f"{one.tasks:,}"
        used_by = "Redis does not say" if processes is None else ", ".join(sorted(processes.get(one.name, ()))) or "nobody"
        table.add_row(one.name, tasks, f"{len(one.all_keys):,}", decimal(one.size_bytes), used_by)
    output_console().print(table)


def delete_namespace(settings: Settings, name: str, *, yes: bool, force: bool) -> None:
    """Delete all keys of a namespace. Raises UsageError without `yes` and a terminal to ask on, StreammetricsError for a namespace that
    is not there, or in use (unless `force`), StoreError; click.Abort when the operator says no."""
    if not yes and (sys.stdin is None or not sys.stdin.isatty()):
        raise click.UsageError("there is no terminal to ask on: give --yes if it shall be deleted; it does not come back")
    configure_quiet_logs(settings.log.level, settings.log.format)
    with closing(RedisNamespaces(redis_connection(settings))) as store:
        namespace = _named(_find(store), name, store.settings.place)
        if not force:
            _require_unused(store, name)
        store.measure(namespace)
        keys, size = len(namespace.all_keys), decimal(namespace.size_bytes)
        if not yes:
            click.confirm(f"Delete namespace {name}, {keys:,} keys of {size}, from Redis at {store.settings.place}?", abort=True, err=True)
            if not force:  # somebody may have started one while we asked
                _require_unused(store, name)
        with _progress("delete") as noticed:
            back = store.delete(namespace, noticed)
        if back:
            raise StreammetricsError(f"{back} keys of namespace {name} came back: something writes them; stop it, then delete again")
    click.echo(f"deleted namespace {name}: {keys:,} keys, {size} freed")


def _find(store: RedisNamespaces) -> list[Namespace]:
    with _progress("look") as noticed:
        return store.find(noticed)


def _named(found: list[Namespace], name: str, place: str) -> Namespace:
    for one in found:
        if one.name == name:
            return one
    there = f"there are {', '.join(one.name for one in found)}" if found else "there is none at all"
    raise StreammetricsError(f"no namespace {name!r} in Redis at {place}; {there}")


def _require_unused(store: RedisNamespaces, name: str) -> None:
    processes = store.processes()
    if processes is None:
        raise StreammetricsError(
            f"Redis does not say who is connected, so that namespace {name} may be in use; grant CLIENT LIST, or see to it that no worker "
            "and no exporter runs in it and give --force"
        )
    if at_work := processes.get(name):
        raise StreammetricsError(
            f"namespace {name} is in use by {', '.join(sorted(at_work))}: stop them first, or give --force (workers then stop by "
            "themselves: the store has lost their state)"
        )


@contextmanager
def _progress(what: str) -> Iterator[Noticed]:
    with progress_bar(what, MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True)) as update:
        yield lambda done, total: update(completed=done, total=total)
