"""Reads a password and prints its hash."""

from __future__ import annotations

import sys

import click

from streammetrics.cli.command import command
from streammetrics.cli.output.standard_output import standard_output
from streammetrics.config import hash_password as hashed
from streammetrics.errors import StreammetricsError


def print_hash(username: str | None, cost: int) -> None:
    """Print the hash of a password, with the user name before it if there is one."""
    if username is not None and (not username or ":" in username or not username.isprintable() or username.startswith("#")):
        raise click.UsageError(f"--username {username!r}: a name has printable characters, no colon, and no # at its start")
    try:
        text = hashed(_password(), cost)
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


@command
@click.option("--username", metavar="NAME", help="Print NAME:HASH, a line of an htpasswd file.")
@click.option(
    "--cost", type=click.IntRange(10, 15), default=12, show_default=True, help="One more doubles the time of each login and each guess."
)
def hash_password(username: str | None, cost: int) -> None:
    """Hash a password with bcrypt, for http.password_hash or an htpasswd file.

    On a terminal it asks for the password twice and does not show it. Otherwise it reads one line of standard input.

    \b
    Examples:
      streammetrics hash-password
      streammetrics hash-password --username scraper >> /etc/streammetrics/htpasswd
      printf '%s' "$PASSWORD" | streammetrics hash-password
    """
    print_hash(username, cost)
