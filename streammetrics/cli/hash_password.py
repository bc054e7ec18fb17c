"""Reads a password and prints its hash."""

from __future__ import annotations

import sys

import click

from streammetrics.cli.output.standard_output import standard_output
from streammetrics.config import hash_password
from streammetrics.errors import StreammetricsError


def print_hash(username: str | None, cost: int) -> None:
    """Print the hash of a password, with the user name before it if there is one."""
    if username is not None and (not username or ":" in username or not username.isprintable() or username.startswith("#")):
        raise click.UsageError(f"--username {username!r}: a name has printable characters, no colon, and no # at its start")
    try:
        text = hash_password(_password(), cost)
    except ValueError as error:
        raise StreammetricsError(str(error)) from None
    click.echo(text if username is None else f"{username}:{text}", file=standard_output())


def _password() -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        return str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    try:
        return "" if sys.stdin is None else sys.stdin.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise StreammetricsError("the password is not in the encoding of standard input; write it in UTF-8") from None
