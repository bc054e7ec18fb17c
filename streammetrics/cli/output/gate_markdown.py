"""Formats the answer of the gate as Markdown, as the summary of a job shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from streammetrics.cli.output.report_reader import SCOPE_WORDS, interval_text, lift_text
from streammetrics.errors import StreammetricsError
from streammetrics.reports.gate_answer import GateAnswer
from streammetrics.reports.text import fit
from streammetrics.reports.time_text import minute_text

SIGNS = {"pass": "✅", "wait": "⏳", "fail": "❌"}


def summary_markdown(experiment: str, found: GateAnswer | StreammetricsError) -> str:
    """Return the decision, its reason and the numbers behind it. Names from events are never markup."""
    if isinstance(found, StreammetricsError):
        return f"### {SIGNS['wait']} {_text(experiment)}: wait\n\n{_text(str(found))}\n"
    asked = experiment if found.variant is None else f"{experiment} / {found.variant}"
    lines = [f"### {SIGNS[found.gate]} {_text(asked)}: {found.gate}", "", _text(found.reason)]
    lines += [] if found.needed is None else ["", f"Needed: {_text(found.needed)}"]
    for warning in found.warnings:
        lines += ["", f"Warning: {_text(warning)}"]
    if found.treatments:
        lines += ["", *_table(found)]
    lines += ["", f"Numbers {SCOPE_WORDS.get(found.scope, found.scope)}, up to {minute_text(found.up_to_ms)}."]
    return "\n".join(lines) + "\n"


def _table(found: GateAnswer) -> Iterable[str]:
    yield "| treatment | gate | users | users of the control | measure | lift | interval | verdict |"
    yield "|---|---|--:|--:|---|--:|---|---|"
    for each in found.treatments:
        arm = _text(each.variant), each.gate, f"{each.users:,}", f"{found.control_users:,}"
        if not each.measures:
            yield _row(*arm, "-", "-", "-", each.verdict or "-")
        for one in each.measures:
            yield _row(*arm, one.measure, lift_text(one.lift), interval_text(one.lift_lower, one.lift_upper), one.verdict or "-")


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Return text in which nothing is markup.

    >>> _text("a|b <c> *d*")
    'a\\\\|b \\\\<c\\\\> \\\\*d\\\\*'
    """
    return "".join(f"\\{each}" if each in r"\`*_{}[]<>#|!~&" else each for each in fit(text))
