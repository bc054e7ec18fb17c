"""What all commands have in common: how they become commands of click, and values that several of them need."""

from __future__ import annotations

from collections.abc import Callable

import click

from streammetrics.cli.exit_codes import with_exit_codes

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
SEED = click.IntRange(0, 2**63 - 1)


def command(function: Callable[..., None], failed: int = 1) -> click.Command:
    """Make a command of a function; its errors become messages and exit codes, as in `with_exit_codes`."""
    return click.command(context_settings=CONTEXT)(with_exit_codes(function, failed))
