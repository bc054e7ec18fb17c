"""The options of `gate`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.option_types import FiniteFloatRange, ReportFile, span_seconds

NO_DECISION = 3
"""Exit code while there is no decision, and of every failure."""


@partial(command, failed=NO_DECISION)
@configured
@click.argument("experiment")
@click.argument("file", required=False, type=ReportFile(), metavar="[FILE]")
@click.option("--variant", metavar="NAME", help="Ask about this treatment only. Without it, all must pass, and any that fails is a fail.")
@click.option(
    "--scope", type=click.Choice(["start", "day"]), default="start", show_default=True, help="Numbers since the start, or of this UTC day."
)
@click.option("--stage", metavar="NAME", help="Wait until this stage of the rollout runs: the step that was just made.")
@click.option("--url", help="Ask this exporter, such as https://exporter:9464. Sets client.url.")
@click.option("--watch", is_flag=True, help="Ask again until there is a decision, or until --deadline.")
@click.option("--deadline", callback=span_seconds, metavar="SPAN", help="With --watch: give up after this time, such as 90m.")
@click.option(
    "--every", type=FiniteFloatRange(0.1, 86_400), default=15.0, show_default=True, help="With --watch: seconds between questions."
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.option(
    "--summary",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Add the answer to this file as Markdown, such as $GITHUB_STEP_SUMMARY.",
)
def gate(
    config_path: Path | None,
    settings_given: tuple[str, ...],
    *,
    url: str | None,
    watch: bool,
    deadline: float | None,
    every: float,
    as_json: bool,
    summary: Path | None,
    **asked: Any,
) -> None:
    """Say whether the treatments of EXPERIMENT may get more traffic: pass, fail or wait.

    pass: every deciding measure is certainly not worse than the control by more than experiments.gate_margin (5 %), and the stage of the
    rollout that runs now has been seen. fail: a treatment is certainly worse than the control by more than experiments.margin (1 %), over
    all stages or in one. wait: neither is certain yet, or the numbers must not be used: they are stale, behind, mixed, invalid, or out of
    reach.

    The question goes to the exporter at --url, to FILE as in `report`, or to the state in Redis. Nothing is changed. A login and
    authorities to trust are in the section [client]: give the password as $STREAMMETRICS_CLIENT_PASSWORD.

    Exit codes: 0 pass, 1 fail, 2 wrong usage, 3 wait. Every failure is 3, such as a server that does not answer.

    \b
    Examples:
      streammetrics gate ranker-v7 --url http://exporter:9464
      streammetrics gate ranker-v7 --config streammetrics.toml --watch --deadline 2h
      streammetrics gate ranker-v7 --url http://exporter:9464 --stage "25 %" --watch
      streammetrics gate ranker-v7 report.json --variant treatment --json
    """
    from streammetrics.cli.process.signals import interrupt_on_signals  # noqa: PLC0415

    with interrupt_on_signals():
        from streammetrics.cli.gate import GateQuestion, Watch, run_gate  # noqa: PLC0415

        if deadline is not None and not watch:
            raise click.UsageError("--deadline needs --watch")
        if asked["file"] is not None and url is not None:
            raise click.UsageError("give FILE or --url, not both")
        if watch and str(asked["file"]) == "-":
            raise click.UsageError("--watch cannot read standard input again and again; give a file or --url")
        loaded = load_settings(config_path, settings_given, client__url=url)
        watching = Watch(every_seconds=every, deadline_seconds=deadline) if watch else None
        code = run_gate(loaded.settings, GateQuestion(**asked), as_json=as_json, watch=watching, summary=summary)
    raise SystemExit(code)
