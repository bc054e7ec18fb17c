"""The options of `hash-password`."""

from __future__ import annotations

import click

from streammetrics.cli.command import command


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
    from streammetrics.cli.hash_password import print_hash  # noqa: PLC0415

    print_hash(username, cost)
