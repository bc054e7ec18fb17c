"""Sentences as text with its parts, and warnings made of them. Pure.

A `Words` is a text that knows which of its parts are names, measures and numbers. So a page can set a name apart and call a measure as
its tables do, and no program has to search English for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from string import Formatter
from typing import Literal, NamedTuple


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


class ReasonedWord:
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

    >>> said = say("{share} of {count:,} users saw {arm}", share=Words([Part("number", "50 %")]), count=1_000, arm=named("new"))
    >>> said, [part.kind for part in said.parts]
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
