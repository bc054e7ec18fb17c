"""The command line: the list of commands. `commands` has the options of each, and `exit_codes` turns errors into exit codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click

from streammetrics.cli.command import CONTEXT
from streammetrics.cli.commands.check_config import check_config
from streammetrics.cli.commands.config import config
from streammetrics.cli.commands.dashboards import dashboards
from streammetrics.cli.commands.decode import decode
from streammetrics.cli.commands.demo import demo
from streammetrics.cli.commands.differences import differences
from streammetrics.cli.commands.doctor import doctor
from streammetrics.cli.commands.evaluate import evaluate
from streammetrics.cli.commands.gate import gate
from streammetrics.cli.commands.hash_password import hash_password
from streammetrics.cli.commands.namespaces import namespaces
from streammetrics.cli.commands.plan import plan
from streammetrics.cli.commands.repartition import repartition
from streammetrics.cli.commands.replay import replay
from streammetrics.cli.commands.report import report
from streammetrics.cli.commands.rules import rules
from streammetrics.cli.commands.run import run
from streammetrics.cli.commands.schema import schema
from streammetrics.cli.commands.simulate import simulate
from streammetrics.cli.commands.spark import spark
from streammetrics.cli.exit_codes import CommandGroup
from streammetrics.version import __version__

SENTENCE_MAX: Final = 200
"""Characters of the longest sentence that stands beside a command."""

GROUPS: Final[Mapping[str, Sequence[click.Command]]] = {
    "See results": (demo, run, report, gate, plan),
    "Your data": (decode, doctor, simulate, schema, repartition),
    "Files and history": (replay, spark, differences, evaluate),
    "Settings": (config, check_config, hash_password),
    "Operations": (rules, dashboards, namespaces),
}
"""All commands, by what they are for."""


class GroupedCommands(CommandGroup):
    """Lists the commands by what they are for, each with the first sentence of its help."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(len(name) for name in self.commands)
        for title, found in GROUPS.items():
            with formatter.section(title):
                lines = [(str(each.name).ljust(widest), each.get_short_help_str(limit=SENTENCE_MAX)) for each in found]
                formatter.write_dl(lines, col_max=widest + 2)


@click.group(cls=GroupedCommands, context_settings=CONTEXT, epilog="Every command has its own --help with examples.")
@click.version_option(__version__, prog_name="streammetrics")
def main() -> None:
    """Live ranking quality from an event stream: windowed NDCG, HitRate and MRR per A/B variant, exact and exactly-once.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration. `gate` and `differences` have their own.
    """


for _commands in GROUPS.values():
    for _command in _commands:
        main.add_command(_command)
