"""The command line: the list of commands. `commands` has the options of each, and `exit_codes` turns errors into exit codes."""

from __future__ import annotations

import click

from streammetrics import __version__
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


@click.group(cls=CommandGroup, context_settings=CONTEXT, epilog="Every command has its own --help with examples.")
@click.version_option(__version__, prog_name="streammetrics")
def main() -> None:
    """Live ranking quality from an event stream: windowed NDCG, HitRate and MRR per A/B variant, exact and exactly-once.

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration. `gate` and `differences` have their own.
    """


for _command in (
    run,
    replay,
    report,
    plan,
    gate,
    differences,
    spark,
    simulate,
    demo,
    doctor,
    namespaces,
    repartition,
    decode,
    schema,
    config,
    check_config,
    hash_password,
    rules,
    dashboards,
    evaluate,
):
    main.add_command(_command)
