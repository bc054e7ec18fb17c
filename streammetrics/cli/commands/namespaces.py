"""The options of `namespaces list` and `namespaces delete`."""

from __future__ import annotations

from pathlib import Path

import click

from streammetrics.cli.command import CONTEXT
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.exit_codes import with_exit_codes


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
    from streammetrics.cli.namespaces import list_namespaces  # noqa: PLC0415

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
    from streammetrics.cli.namespaces import delete_namespace  # noqa: PLC0415

    delete_namespace(load_settings(config_path, settings_given).settings, name, yes=yes, force=force)
