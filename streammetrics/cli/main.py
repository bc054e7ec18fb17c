"""The command line: the list of commands. Each has a module of its name in `commands`, which is imported when it is used."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Final

import click

from streammetrics.cli.command import CONTEXT, CommandGroup
from streammetrics.version import __version__

GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "See results": {
        "demo": "Show a simulated A/B test live, without Kafka or Redis.",
        "run": "Consume events from Kafka, keep state in Redis, and serve the results.",
        "report": "Show the results of experiments.",
        "gate": "Say whether the treatments of EXPERIMENT may get more traffic: pass, fail or wait.",
        "plan": "Show how many users and days a verdict takes, and which lift can be found.",
    },
    "Your data": {
        "decode": "Show what sample records become: lists, feedback, ignored, or refused and why.",
        "doctor": "Check Kafka, Redis, the stored state, recent records and the HTTP port, and say how to fix each problem.",
        "simulate": "Generate traffic with known effects, for tests and trials.",
        "repartition": "Copy the input topics into topics keyed by user, exactly once, for producers that cannot be changed.",
    },
    "Files and history": {
        "replay": "Compute the same numbers as `run` from files, without Kafka, Redis or a clock.",
        "spark": "Replay long history on Apache Spark: the same numbers as `replay`, on many machines.",
    },
    "Settings": {
        "config": "Print a configuration file, or a reader, to start from.",
        "check-config": "Check the configuration and print every setting with its origin.",
        "hash-password": "Hash a password with bcrypt, for http.password_hash or an htpasswd file.",
    },
    "Operations": {
        "rules": "Write recording rules, alerting rules and routes of Alertmanager.",
        "dashboards": "Write the Grafana dashboards as JSON, for import or provisioning.",
        "namespaces": "List the namespaces in Redis, and delete the ones that are no longer needed.",
    },
}
"""All commands, by what they are for, with the first sentence of their help."""

NAMES: Final = tuple(name for commands in GROUPS.values() for name in commands)

NOT_STARTED: Final = 3
"""Exit code of a command that is interrupted, or fails, while it is imported: for `gate` it means that there is no decision."""


def command_named(name: str) -> click.Command:
    """Import and return one of the commands."""
    module = name.replace("-", "_")
    command: click.Command = getattr(import_module(f"streammetrics.cli.commands.{module}"), module)
    return command


class LazyCommands(CommandGroup):
    """Lists the commands by what they are for. Imports a command when it is used, so that the list appears at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        try:
            return command_named(cmd_name) if cmd_name in NAMES else None
        except (Exception, KeyboardInterrupt):
            traceback.print_exc()
            raise SystemExit(NOT_STARTED) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, NAMES))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), sentence) for name, sentence in commands.items()], col_max=widest + 2)


@click.group(cls=LazyCommands, context_settings=CONTEXT, epilog="Every command has its own --help with examples.")
@click.version_option(__version__, prog_name="streammetrics")
def main() -> None:
    """Live ranking quality from an event stream: windowed NDCG, HitRate and MRR per A/B variant, exact and exactly-once.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration. `gate` has its own.
    """
