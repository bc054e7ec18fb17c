"""Change the selectors of PromQL: a prefix before each of our series, and more matchers. Pure.

It reads expressions of our own rules and dashboards, not PromQL in general.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streammetrics.errors import CallerError

_SELECTOR: Final = re.compile(
    r"(\"[^\"]*\"|'[^']*')|(?<![\w:'\"/-])(?:(streammetrics_(?:\w|\$\{\w+\})+)|(up|ALERTS(?:_FOR_STATE)?|(?:process_|job\w*:)\w+(?::\w+)*))(?![\w:(])(\{\s*)?"
)
"""A text in quotes, which stays; our series, whose names may hold variables of Grafana; other names; the brace that opens matchers."""
_GROUPING: Final = re.compile(r"\b(by|on) \((?=\w)")
_NAME_MATCHER: Final = re.compile(r'\{__name__=~"(?=streammetrics_)')
_PREFIX: Final = re.compile(r"(?:[a-zA-Z_:][a-zA-Z0-9_:]*)?")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN_LABELS: Final = frozenset({"alertname", "alertstate", "experiment", "instance", "job", "k", "metric", "scope", "severity", "variant"})
_FORBIDDEN: Final = frozenset("\"'\\{}%@$`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selectors:
    """What to change: a prefix of the series names, and labels that every selected series must have.

    Raises CallerError for a prefix or a label that Prometheus does not accept, and for a label that the rules use themselves.

    >>> Selectors(prefix="shop_", labels={"env": "prod"}).applied("max by (job) (streammetrics_lag_seconds) > 3")
    'max by (job) (shop_streammetrics_lag_seconds{env="prod"}) > 3'
    >>> Selectors(labels={"env": "prod"}).applied('up{job="a"} == 0')
    'up{env="prod", job="a"} == 0'
    >>> Selectors(labels={"env": "prod"}).applied('label_replace(up, "problem", "given up", "", "")')
    'label_replace(up{env="prod"}, "problem", "given up", "", "")'
    """

    prefix: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise CallerError("prefix", f"got {self.prefix!r}; allowed are letters, digits after the first character, _ and :")
        for name, value in self.labels.items():
            if not _LABEL.fullmatch(name) or name.startswith("__"):
                raise CallerError("filter", f"got the label {name!r}; allowed are letters, digits after the first character, and _")
            if name in _OWN_LABELS:
                raise CallerError("filter", f"got the label {name!r}, which the rules use themselves; choose one that your Prometheus adds")
            if not value or not value.isprintable() or _FORBIDDEN & set(value):
                allowed = "printable characters without quotes, backslashes, braces and % @ $ `"
                raise CallerError("filter", f"got {value!r} for {name}; allowed are {allowed}")

    def applied(self, expression: str, quote: str = '"') -> str:
        """Return the expression with the prefix and the labels at every selector. `quote` encloses the labels' values."""
        matchers = ", ".join(f"{name}={quote}{value}{quote}" for name, value in self.labels.items())

        def changed(found: re.Match[str]) -> str:
            text, ours, other, brace = found.groups()
            if text:
                return str(text)
            name = f"{self.prefix}{ours}" if ours else other
            if not matchers:
                return name + (brace or "")
            return f"{name}{{{matchers}, " if brace else f"{name}{{{matchers}}}"

        by_name = "{" + (f"{matchers}, " if matchers else "") + f'__name__=~"{self.prefix}'
        return _SELECTOR.sub(changed, _NAME_MATCHER.sub(lambda _: by_name, expression))

    def grouped(self, expression: str) -> str:
        """Return the expression with the labels in every `by` and `on`, so that the results have them too.

        >>> Selectors(labels={"env": "prod"}).grouped("sum by (job) (a) / on (job) b")
        'sum by (env, job) (a) / on (env, job) b'
        """
        return _GROUPING.sub(lambda found: f"{found[1]} ({', '.join(self.labels)}, ", expression) if self.labels else expression
