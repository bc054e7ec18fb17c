"""Lets the docstrings appear as they are meant: examples as code, and lines such as `name: meaning` as a list."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^>>> .*\n(?:^(?!>>> |\s*$).*\n)*)+", re.MULTILINE)
_NAMED = re.compile(r"^(\w+(?:, \w+)*): ", re.MULTILINE)


def readable(text: str) -> str:
    """Fence the examples of a docstring, and make a list of its named lines.

    >>> print(readable("Add.\\n\\na: one number.\\nb: another one.\\n\\n>>> 1 + 1\\n2"))
    Add.
    <BLANKLINE>
    - `a`: one number.
    - `b`: another one.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    """
    fenced = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}```\n", f"{text}\n")
    parts = re.split(r"(^```.*?^```$)", fenced, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if at % 2 else _NAMED.sub(lambda found: f"- `{found[1]}`: ", part) for at, part in enumerate(parts))


class ReadableDocstrings(griffe.Extension):
    """Changes each docstring when griffe has read its object."""

    def on_instance(self, *, node: Any, obj: griffe.Object, agent: Any, **options: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
