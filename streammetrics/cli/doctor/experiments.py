"""What `doctor` says about each experiment: its verdict, what to do before a variant is switched off, and whether it is over. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.cli.doctor.records import DecodedTopic
from streammetrics.config.experiments import ExperimentSettings
from streammetrics.config.times import epoch_ms
from streammetrics.events import Impression
from streammetrics.events.event_time import DAY_MS
from streammetrics.reports.samples import LISTS_MIN
from streammetrics.reports.verdict_lines import VerdictLine
from streammetrics.words.names import isolated
from streammetrics.words.numbers import counted
from streammetrics.words.times import minute_text, span_text

MINUTE_MS = 60_000
LABEL: Final = "set its end in experiments.named if the label will mean something else later"


@dataclass(frozen=True, slots=True)
class RecentExperiments:
    """How many lists a sample has, and the times (ms) of those in each experiment."""

    lists: int = 0
    times: Mapping[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, topics: Iterable[DecodedTopic]) -> RecentExperiments:
        """Return the experiments of the lists of these topics."""
        lists = [event for topic in topics for _, event in topic.events() if isinstance(event, Impression)]
        times: dict[str, list[int]] = {}
        for impression in lists:
            for experiment, _ in impression.experiments:
                times.setdefault(experiment, []).append(impression.ts)
        return cls(len(lists), times)

    def newest(self, experiment: str) -> int | None:
        """Return the time of the newest list of an experiment; None without one."""
        return max(self.times.get(experiment, ()), default=None)


def experiment_findings(
    settings: ExperimentSettings, lines: Mapping[str, VerdictLine], recent: RecentExperiments, now_ms: int
) -> Iterator[DoctorFinding]:
    """Say of each experiment what its verdict is, and what to do before it ends or a variant is switched off.

    lines: the line of each whole experiment in the stored state, since its start. now_ms: the clock.
    """
    ends = {name: epoch_ms(rules.end) for name, rules in settings.named.items() if rules.end is not None}
    over = {name: end_ms for name, end_ms in ends.items() if end_ms <= now_ms}
    running = list[VerdictLine]()
    for name in sorted({*lines, *over}):
        line = lines.get(name)
        if name in over:
            yield _ended(name, over[name], line, recent)
        elif line is not None and line.state == "ended":
            text = f"experiment {isolated(name)} has ended for the workers, and experiments.named here has no such end. {_verdict(line)}"
            yield DoctorFinding("warn", text, "give all processes the same configuration")
        elif line is not None and line.state == "stopped":
            yield _stopped(line)
        elif line is not None and _is_silent(line, recent, now_ms):
            yield _silent(line, is_named=name in settings.named, idle_days=settings.idle_days, now_ms=now_ms)
        elif line is not None:
            running.append(line)
            yield _running(line, recent)
    if any(line.verdict != "regressed" for line in running):
        yield _before_switching_off()


def _ended(name: str, end_ms: int, line: VerdictLine | None, recent: RecentExperiments) -> DoctorFinding:
    text = f"experiment {isolated(name)} is over: it ended at {minute_text(end_ms)}"
    verdict = "" if line is None else f". {_verdict(line)}"
    if after := sum(ts >= end_ms for ts in recent.times.get(name, ())):
        fix = "switch it off where lists are made, or move its end in experiments.named"
        return DoctorFinding("warn", f"{text}, and {counted(after, 'recent list')} with its label do not count{verdict}", fix)
    return DoctorFinding("ok", f"{text}, and no recent list has its label{verdict}")


def _stopped(line: VerdictLine) -> DoctorFinding:
    """An arm gets no more lists, and others do."""
    if line.decided_ms is not None:
        return DoctorFinding("ok", f"experiment {isolated(line.experiment)} is decided. {_verdict(line)}")
    fix = f"if no variant was switched off, look for its lists from then on; if it is over, {_end(line)}"
    return DoctorFinding(
        "warn", f"experiment {isolated(line.experiment)} has an arm without new lists, and is not decided. {_verdict(line)}", fix
    )


def _is_silent(line: VerdictLine, recent: RecentExperiments, now_ms: int) -> bool:
    """Return whether an experiment has had no list for long: for the stream, or by the clock."""
    newest, last_ms = recent.newest(line.experiment), line.last_ms
    if last_ms is None or (newest is not None and newest > last_ms):
        return False
    return line.state == "silent" or now_ms - last_ms > DAY_MS


def _silent(line: VerdictLine, *, is_named: bool, idle_days: int, now_ms: int) -> DoctorFinding:
    assert line.last_ms is not None
    since = f"its last list was at {minute_text(line.last_ms)}, {span_text(now_ms - line.last_ms)} ago"
    text = f"experiment {isolated(line.experiment)} is still set to run, and {since}. {_verdict(line)}"
    if line.decided_ms is not None and not is_named:
        return DoctorFinding("ok", f"experiment {isolated(line.experiment)} is decided: {since}. {_verdict(line)}")
    dropped = f"its state is dropped after {counted(idle_days, 'day')} without a list"
    return DoctorFinding(
        "warn", text, f"if it is over, {_keep(line.experiment)} ({dropped}), then {_end(line)}; if not, look for its lists"
    )


def _running(line: VerdictLine, recent: RecentExperiments) -> DoctorFinding:
    absent = recent.lists >= LISTS_MIN and line.experiment not in recent.times
    none = f", and none of {counted(recent.lists, 'recent list')} is in it" if absent else ""
    text = f"experiment {isolated(line.experiment)} is running{none}. {_verdict(line)}"
    if line.verdict != "regressed":
        return DoctorFinding("ok", text)
    return DoctorFinding(
        "warn", text, f"{_keep(line.experiment)}; {LABEL}; then {_give('treatment' if line.treatment is None else line.treatment)}"
    )


def _before_switching_off() -> DoctorFinding:
    advice = f"Before you switch a variant off, {_keep('NAME')}; {LABEL}; then {_give('the variant')}"
    return DoctorFinding("ok", f"{advice}. A verdict that is certain then stays; another one does not become certain any more")


def _give(arm: str) -> str:
    return f"give the users of {isolated(arm)} the control, and change neither the name, shares nor unit of the experiment"


def _verdict(line: VerdictLine) -> str:
    reason = line.reason.removesuffix(".")
    return f"Its verdict is {line.verdict}: {reason}" if line.verdict is not None else "It has no verdict"


def _keep(experiment: str) -> str:
    return f"first keep the numbers (`streammetrics report --experiment {shlex.quote(experiment)} --format json`, and print the page)"


def _end(line: VerdictLine) -> str:
    """Return how to end an experiment after its last list, to the minute."""
    at_ms = 0 if line.last_ms is None else (line.last_ms // MINUTE_MS + 1) * MINUTE_MS
    return f'set end = "{minute_text(at_ms).removesuffix(" UTC").replace(" ", "T")}Z" for it in experiments.named'
