"""`namespaces`: list the namespaces in Redis as a table, and delete one after a confirmation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click
from rich.filesize import decimal
from rich.progress import MofNCompleteColumn, TimeRemainingColumn

from streammetrics.cli.command import CONTEXT, with_exit_codes
from streammetrics.cli.options import configured, load_settings
from streammetrics.cli.output.terminal import FittingTable, output_console, progress_bar
from streammetrics.config import Settings
from streammetrics.connectors.redis.client import place_of
from streammetrics.connectors.redis.namespaces import Namespace, Progress, RedisNamespaces
from streammetrics.errors import StreammetricsError
from streammetrics.wiring.logs import configure_quiet_logs
from streammetrics.words.numbers import counted


def list_namespaces(settings: Settings) -> None:
    """Print every namespace with its tasks, keys, memory and connected processes. Raises StoreError."""
    configure_quiet_logs(settings.log.level, settings.log.format)
    with closing(RedisNamespaces(settings.redis)) as store:
        namespaces = _find(store)
        with _progress("measure") as update:
            for number, namespace in enumerate(namespaces, 1):
                store.measure(namespace)
                update(number, len(namespaces))
        processes = store.processes()
    if not namespaces:
        click.echo(f"no namespace in Redis at {place_of(store.settings)}")
        return
    table = FittingTable(("namespace",), ("tasks", "keys", "memory"), ("in use by",), apart=False)
    for one in namespaces:
        tasks = "unknown" if one.tasks is None else f"{one.tasks:,}"
        used_by = "unknown" if processes is None else ", ".join(sorted(processes.get(one.name, ()))) or "-"
        table.add_row(one.name, tasks, f"{len(one.all_keys):,}", decimal(one.size_bytes), used_by)
    output_console().print(table)


def delete_namespace(settings: Settings, name: str, *, yes: bool, force: bool) -> None:
    """Delete all keys of a namespace, after a confirmation unless `yes`.

    Raises StreammetricsError for a namespace that does not exist, or that is in use (unless `force`); StoreError; UsageError
    without a terminal for the confirmation; click.Abort if the operator declines.
    """
    if not yes and (sys.stdin is None or not sys.stdin.isatty()):
        raise click.UsageError("cannot ask for confirmation without a terminal; give --yes to delete the namespace for good")
    configure_quiet_logs(settings.log.level, settings.log.format)
    with closing(RedisNamespaces(settings.redis)) as store:
        namespace = _named(_find(store), name, place_of(store.settings))
        if not force:
            _require_unused(store, name)
        store.measure(namespace)
        keys, size = counted(len(namespace.all_keys), "key"), decimal(namespace.size_bytes)
        if not yes:
            click.confirm(f"Delete namespace {name} ({keys}, {size}) from Redis at {place_of(store.settings)}?", abort=True, err=True)
            if not force:  # a process may have started in the meantime
                _require_unused(store, name)
        with _progress("delete") as update:
            rewritten = store.delete(namespace, update)
        if rewritten:
            raise StreammetricsError(
                f"{counted(rewritten, 'key')} of namespace {name} came again during the deletion; stop the process that writes there, then "
                "delete again"
            )
    click.echo(f"deleted namespace {name}: {keys}, {size} freed")


def _find(store: RedisNamespaces) -> list[Namespace]:
    with _progress("scan") as update:
        return store.find(update)


def _named(namespaces: list[Namespace], name: str, place: str) -> Namespace:
    for one in namespaces:
        if one.name == name:
            return one
    existing = f"it has {', '.join(one.name for one in namespaces)}" if namespaces else "it has none"
    raise StreammetricsError(f"no namespace {name!r} in Redis at {place}; {existing}")


def _require_unused(store: RedisNamespaces, name: str) -> None:
    processes = store.processes()
    if processes is None:
        raise StreammetricsError(
            f"Redis does not show its connections, so namespace {name} may be in use; grant CLIENT LIST, or make sure that no worker or "
            "exporter uses it and give --force"
        )
    if users := processes.get(name):
        raise StreammetricsError(
            f"namespace {name} is in use by {', '.join(sorted(users))}; stop them first, or give --force (workers then stop, because their "
            "state is gone)"
        )


@contextmanager
def _progress(what: str) -> Iterator[Progress]:
    with progress_bar(what, MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True)) as update:
        yield lambda done, total: update(completed=done, total=total)


@click.group(context_settings=CONTEXT)
def namespaces() -> None:
    """List the namespaces in Redis, and delete the ones that are no longer needed.

    \b
    Examples:
      streammetrics namespaces list --config streammetrics.toml
      streammetrics namespaces delete sm-1 --config streammetrics.toml
    """


@namespaces.command("list", context_settings=CONTEXT)
@with_exit_codes
@configured
def namespaces_list(config_path: Path | None, settings_given: tuple[str, ...]) -> None:
    """List the namespaces in Redis: tasks, keys, approximate memory, and connected workers and exporters.

    Scans all key names of the database. Changes nothing.

    \b
    Examples:
      streammetrics namespaces list --config streammetrics.toml
      streammetrics namespaces list --set redis.url=redis://cache:6379/0
    """
    list_namespaces(load_settings(config_path, settings_given).settings)


@namespaces.command("delete", context_settings=CONTEXT)
@with_exit_codes
@configured
@click.argument("name")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--force", is_flag=True, help="Delete even if workers or exporters are connected, or if Redis does not show connections.")
def namespaces_delete(config_path: Path | None, settings_given: tuple[str, ...], name: str, yes: bool, force: bool) -> None:
    """Delete all state, offsets and tallies of the namespace NAME. redis.namespace is ignored. This cannot be undone.

    If Redis has access control, use a user with more rights than a worker, such as streammetrics-admin in deploy/redis-users.acl.

    \b
    Examples:
      streammetrics namespaces delete sm-1 --config streammetrics.toml
      streammetrics namespaces delete sm-1 --yes --set redis.url=redis://cache:6379/0
      STREAMMETRICS_REDIS_USERNAME=streammetrics-admin STREAMMETRICS_REDIS_PASSWORD_FILE=secret streammetrics namespaces delete sm-1
    """
    delete_namespace(load_settings(config_path, settings_given).settings, name, yes=yes, force=force)
