"""Sentences about experiments as text with its parts, and the words for shares, lifts and intervals. Pure.

A `Words` is a text that knows which of its parts are names, measures and numbers. So a page can set a name apart and call a measure as
its tables do, and no program has to search English for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from string import Formatter
from typing import Literal, NamedTuple

from streammetrics.experiments.estimates import Interval
from streammetrics.experiments.measures import Measure
from streammetrics.metrics.records import RECORDS


class Part(NamedTuple):
    """A part of a sentence. The text of a measure is its name in reports, such as `ndcg@10`. Advice is about settings."""

    kind: Literal["text", "name", "measure", "number", "advice"]
    text: str


class Words(str):
    """A text and its parts. What `str` makes of it, such as a slice or an f-string, is plain text without parts."""

    __slots__ = ("parts",)
    parts: tuple[Part, ...]

    def __new__(cls, parts: Iterable[Part]) -> Words:
        merged: list[Part] = []
        for part in parts:
            if merged and part.kind == merged[-1].kind == "text":
                merged[-1] = Part("text", merged[-1].text + part.text)
            elif part.text:
                merged.append(part)
        words = super().__new__(cls, "".join(part.text for part in merged))
        words.parts = tuple(merged)
        return words

    @property
    def text(self) -> str:
        """The plain text, for encoders that take no subclass of `str`."""
        return str(self)

    def __reduce__(self) -> tuple[type[Words], tuple[tuple[Part, ...]]]:
        return Words, (self.parts,)


class Reasoned:
    """A word with its reason, as text and in parts: a verdict, or a decision of the gate."""

    __slots__ = ()
    reason: str
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", self.parts or parts_of(self.reason))
        object.__setattr__(self, "reason", str(self.reason))

    @property
    def said(self) -> Words:
        """The reason with its parts, for another sentence."""
        return Words(self.parts)


@dataclass(frozen=True, slots=True)
class DataWarning:
    """What makes numbers doubtful: what is wrong and how often, and what to change.

    key: a few words that stay the same while counts grow. text, fix: sentences without their end. variant: the treatment whose verdict
    is doubtful; empty for all. parts: those of the text.

    >>> print(DataWarning("grades", "No feedback has a grade", "name the actions in join.grades"))
    No feedback has a grade. Name the actions in join.grades.
    """

    key: str
    text: str
    fix: str = ""
    variant: str = ""
    parts: tuple[Part, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", self.parts or parts_of(self.text))
        object.__setattr__(self, "text", str(self.text))

    def __str__(self) -> str:
        """Return both as sentences."""
        return f"{self.text}. {self.fix[:1].upper()}{self.fix[1:]}." if self.fix else self.text


def named(text: str) -> Words:
    """Return a name: of a variant, a team, an experiment or a segment."""
    return Words([Part("name", text)])


def measure_name(text: str) -> Words:
    """Return a measure by its name in reports."""
    return Words([Part("measure", text)])


def advice(text: str) -> Words:
    """Return advice about settings, which a page shows apart from the finding."""
    return Words([Part("advice", text)])


def without_advice(said: Words) -> tuple[Words, Words]:
    """Return a finding without its full stop, and the advice at its end; empty if there is none.

    >>> without_advice(say("{count} users moved.{how}", count=3, how=advice(" Set unit")))
    ('3 users moved', ' Set unit')
    """
    if not said.parts or said.parts[-1].kind != "advice":
        return said, Words(())
    *finding, last = said.parts
    return Words([*finding[:-1], finding[-1]._replace(text=finding[-1].text.removesuffix("."))] if finding else ()), Words([last])


def parts_of(text: str) -> tuple[Part, ...]:
    """Return the parts of a text. A plain text is one part."""
    return text.parts if isinstance(text, Words) else (Part("text", text),) if text else ()


def say(template: str, /, **values: str | float) -> Words:
    """Fill the fields of a template, as `str.format` does. What is no text is a number.

    >>> said = say("{share} of {count:,} users saw {arm}", share=percent(0.5), count=1_000, arm=named("new"))
    >>> said, [each.kind for each in said.parts]
    ('50 % of 1,000 users saw new', ['number', 'text', 'number', 'text', 'name'])
    """
    parts: list[Part] = []
    for text, name, spec, _ in Formatter().parse(template):
        parts.append(Part("text", text))
        if name is not None:
            value = values[name]
            parts += parts_of(value) if isinstance(value, str) else [Part("number", format(value, spec or ""))]
    return Words(parts)


def join(texts: Iterable[str], between: str) -> Words:
    """Put text between others.

    >>> join([named("a"), named("b")], ", ").parts
    (Part(kind='name', text='a'), Part(kind='text', text=', '), Part(kind='name', text='b'))
    """
    pieces = [*texts]
    return Words(part for at, piece in enumerate(pieces) for part in (*parts_of(between if at else ""), *parts_of(piece)))


def counted_words(count: int, what: str) -> Words:
    """Return a count with its noun. The plural ends in s.

    >>> counted_words(1, "problem"), counted_words(12_000, "user")
    ('1 problem', '12,000 users')
    """
    return say("{count:,} {what}", count=count, what=what if count == 1 else f"{what}s")


def percent(share: float) -> Words:
    """Format a share with two digits, or three from 10 % on. It is never rounded up to 100 %.

    >>> percent(0.12), percent(0.0312), percent(0.9875), percent(0.00004)
    ('12 %', '3.1 %', '98.75 %', '0.004 %')
    >>> percent(0.9999999), percent(1.0), percent(1.345678), percent(123.45678)
    ('99.9999 %', '100 %', '135 %', '12,300 %')
    """
    value = 100 * share
    if 95 <= value < 100:
        text = f"{math.floor(value * 10_000 + 1e-6) / 10_000:.6g} %"
    else:
        text = f"{float(f'{value:.3g}' if value >= 10 else f'{value:.2g}'):,.10g} %"
    return Words([Part("number", text)])


def utc(at_ms: int) -> str:
    """Return a time to the minute.

    >>> utc(1_732_183_200_123)
    '2024-11-21 10:00 UTC'
    """
    return f"{datetime.fromtimestamp(at_ms // 1_000, UTC):%Y-%m-%d %H:%M} UTC"


def chance(p: float) -> str:
    """Say how rare something with a p-value is.

    >>> chance(0.0123), chance(1e-14)
    ('happens by chance at most once in 80 tests', 'practically impossible by chance')
    """
    if p <= 1e-12:
        return "practically impossible by chance"
    digits = len(str(int(1 / p))) - 1
    return f"happens by chance at most once in {int(1 / p) // 10**digits * 10**digits:,} tests"


def confidence(alpha: float) -> Words:
    """Return how sure a verdict of this error is."""
    return say("{sure} confidence, safe to check at any time", sure=percent(1 - alpha))


def means_words(measure: Measure, means: tuple[float, float], difference: Interval | None, against: str) -> Words:
    """Describe two means, of a treatment and the control, and how far apart they are at least.

    >>> empty = Measure("zero_result_rate", 0, "mean", 2, 1, 0, lower_is_better=True)
    >>> means_words(empty, (0.15, 0.0), Interval(0.1153, 0.19), "control")
    'zero_result_rate is 15 % against 0 % in control; the difference is at least 11.5 points'
    """
    is_share = measure.ceiling == 1
    one, other = (percent(mean) if is_share else say("{mean:.3g}", mean=mean) for mean in means)
    ends = [end for end in ((difference.lower, difference.upper) if difference else ()) if end is not None]
    least = min(map(abs, ends), default=0.0) if len({end > 0 for end in ends}) == 1 else 0.0
    apart = say("{points:.3g} points", points=100 * least) if is_share else say("{least:.3g}", least=least)
    said = say(
        "{measure} is {one} against {other} in {against}", measure=measure_name(str(measure)), one=one, other=other, against=named(against)
    )
    return say("{said}; the difference is at least {apart}", said=said, apart=apart) if least else said


def lift_words(measure: Measure, lift: float | None, against: str) -> Words:
    """Describe a lift; None means that the control's mean is 0.

    >>> lift_words(Measure("hit_rate", 10, "mean", 2, 1, 40), -0.12, "control")
    '12 % fewer lists with a hit in the first 10 than control'
    >>> lift_words(Measure("ndcg", 10, "mean", 2, 1, 40), 0.0, "control")
    'no difference from control in ndcg@10'
    """
    counted = RECORDS[measure.name].counted
    thing = say(counted or "{measure}", k=measure.k, measure=measure_name(str(measure)))
    if lift is None:
        return say("{against} has no {thing}", against=named(against), thing=thing)
    if lift == 0:
        return say("no difference from {against} in {thing}", against=named(against), thing=thing)
    return say("{change} {thing} than {against}", change=_size_words(measure, lift), thing=thing, against=named(against))


def interval_words(measure: Measure, interval: Interval | None) -> Words:
    """Describe where the true lift may be."""
    if interval is None or interval.lower is None:
        return say("there is too little data for an interval")
    lower, upper = ("any higher value" if end is None else _size_words(measure, end) for end in (interval.lower, interval.upper))
    return say("the true difference is between {lower} and {upper}", lower=lower, upper=upper)


def change_words(measure: Measure, before: float, since: float, at_ms: int) -> Words:
    """Describe a change of the effect: the lifts before a time and since.

    >>> change_words(Measure("ndcg", 10, "mean", 2, 1, 40), 0.67, -0.15, 1_732_183_200_000)
    'the effect has changed: 67 % higher before 2024-11-21 10:00 UTC, 15 % lower since'
    """
    return say(
        "the effect has changed: {before} before {at}, {since} since",
        before=_size_words(measure, before),
        since=_size_words(measure, since),
        at=utc(at_ms),
    )


def _size_words(measure: Measure, lift: float) -> Words:
    less, more = ("fewer", "more") if RECORDS[measure.name].counted else ("lower", "higher")
    return say("{size} {change}", size=percent(abs(lift)), change=less if lift < 0 else more)
