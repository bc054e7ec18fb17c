"""`evaluate`, which parses its own options."""

from __future__ import annotations

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def evaluate(arguments: tuple[str, ...]) -> None:
    """Score a TREC run file against relevance judgments, or compare two runs, with the same metrics as the stream."""
    from streammetrics.cli.evaluate import main as evaluate_runs  # noqa: PLC0415

    raise SystemExit(evaluate_runs(arguments))  # it parses its own options, so that it works like trec_eval
