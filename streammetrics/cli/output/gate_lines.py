"""The answer of `gate`: as lines on a terminal, and as Markdown, which pages such as the summary of a CI job show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from streammetrics.cli.output.report_reader import SCOPE_WORDS, interval_text, lift_text
from streammetrics.cli.output.terminal import FittingTable
from streammetrics.errors import StreammetricsError
from streammetrics.experiments.gate import GateWord
from streammetrics.metrics.names import metric_text
from streammetrics.reports.verdict_lines import GateAnswer, VerdictLine
from streammetrics.words.names import fit
from streammetrics.words.numbers import counted
from streammetrics.words.times import minute_text, span_text

STYLES: dict[GateWord, str] = {"pass": "bold green", "wait": "bold", "fail": "bold red"}
TOGETHER = "The error of the decision covers all treatments and deciding measures together. That of an interval covers the interval alone."


def answer_lines(answer: GateAnswer) -> Iterator[RenderableType]:
    """Yield the lines of an answer."""
    asked = fit(answer.experiment) + ("" if answer.variant is None else f" / {fit(answer.variant)}")
    step = "" if answer.step_ms is None else f" · lists of the running step count from {minute_text(answer.step_ms)} on"
    age = "" if answer.up_to_ms is None else f", {span_text(max(0, answer.answered_ms - answer.up_to_ms))} ago"
    times = f" · {SCOPE_WORDS.get(answer.scope, answer.scope)} · up to {minute_text(answer.up_to_ms)}{age}"
    yield Text.assemble((asked, "bold"), times, step)
    yield Text.assemble((answer.gate.upper(), STYLES[answer.gate]), f"  {fit(answer.reason)}")
    if answer.needed is not None:
        yield Text(f"needed: {fit(answer.needed)}")
    for warning in answer.warnings:
        yield Text(f"warning: {fit(warning)}")
    if answer.treatments:
        yield _treatments(answer)
    if len(answer.treatments) > 1:
        yield Text(TOGETHER)


def _treatments(answer: GateAnswer) -> FittingTable:
    table = FittingTable(("treatment", "gate"), ("users", "users of the control"), ("measure", "lift", "interval", "verdict"), grouped=True)
    for treatment in answer.treatments:
        table.add_row(treatment.variant, treatment.gate or "-", *_cells(treatment, answer))
    return table


def no_answer_line(reason: str) -> Text:
    """Return the line of a gate that cannot be asked."""
    return Text.assemble(("WAIT", STYLES["wait"]), f"  {fit(reason)}")


def progress_line(answer: GateAnswer | StreammetricsError) -> str:
    """Return the state of a gate that has not decided, in one line."""
    if isinstance(answer, StreammetricsError):
        return f"waiting: {fit(str(answer))}"
    needed = "" if answer.needed is None else f" · needed: {fit(answer.needed)}"
    return f"waiting · {counted(answer.users, 'user')} so far · {fit(answer.reason)}{needed}"


SIGNS = {"pass": "✅", "wait": "⏳", "fail": "❌"}


def summary_markdown(experiment: str, answer: GateAnswer | StreammetricsError) -> str:
    """Return the decision, its reason and the numbers behind it. Names from events are never markup."""
    if isinstance(answer, StreammetricsError):
        return f"### {SIGNS['wait']} {_text(experiment)}: wait\n\n{_text(str(answer))}\n"
    asked = experiment if answer.variant is None else f"{experiment} / {answer.variant}"
    lines = [f"### {SIGNS[answer.gate]} {_text(asked)}: {answer.gate}", "", _text(answer.reason)]
    lines += [] if answer.needed is None else ["", f"Needed: {_text(answer.needed)}"]
    for warning in answer.warnings:
        lines += ["", f"Warning: {_text(warning)}"]
    if answer.treatments:
        lines += ["", *_table(answer)]
    lines += ["", f"Numbers {SCOPE_WORDS.get(answer.scope, answer.scope)}, up to {minute_text(answer.up_to_ms)}."]
    return "\n".join(lines) + "\n"


def _table(answer: GateAnswer) -> Iterable[str]:
    yield "| treatment | gate | users | users of the control | measure | lift | interval | verdict |"
    yield "|---|---|--:|--:|---|--:|---|---|"
    for treatment in answer.treatments:
        yield _row(_text(treatment.variant), treatment.gate or "-", *_cells(treatment, answer))


def _cells(line: VerdictLine, answer: GateAnswer) -> tuple[str, ...]:
    """The users of a treatment and of the control, and its deciding measure with the lift, the interval and the verdict."""
    measure = "-" if line.metric is None else metric_text(line.metric, line.k or 0)
    lift = lift_text(line.lift), interval_text(line.lift_lower, line.lift_upper)
    return f"{line.users:,}", f"{answer.control_users:,}", measure, *lift, line.verdict or "-"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """Return text in which nothing is markup.

    >>> _text("a|b <c> *d*")
    'a\\\\|b \\\\<c\\\\> \\\\*d\\\\*'
    """
    return "".join(f"\\{character}" if character in r"\`*_{}[]<>#|!~&" else character for character in fit(text))
