"""The generated tables of the metric library's README. `python -m tests.metrics.golden.page` writes them.

Do not edit the text between the markers by hand; a test compares it with the values of the libraries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final

from streammetrics.metrics import Spec
from streammetrics.metrics.presets import ANY_GRADE, PRESETS
from tests.metrics.golden import cases
from tests.metrics.golden.answers import LIBRARIES, Answers, ask, dismiss
from tests.metrics.golden.cases import Case, graded
from tests.metrics.golden.environment import ROOT

PAGE: Final = ROOT / "streammetrics" / "metrics" / "README.md"
K: Final = 3

LISTS: Final[Mapping[str, Case]] = {
    "3 2 3 0 1": graded([3, 2, 3, 0, 1]),
    "0 1 0 3 2": graded([0, 1, 0, 3, 2]),
    "0 1 0 1": graded([0, 1, 0, 1]),
    "1 0, missed 1": graded([1, 0], [1]),
    "0 0 0": graded([0, 0, 0]),
}
"""Grades in rank order; `missed` are those of relevant items that the list should have shown."""

NO_UNSEEN: Final = ("sklearn", "torchmetrics")
"""Libraries that do not accept unseen items."""

Row = tuple[str, str, str, str]
"""Library, measure as the library spells it, measure as the worker does, preset."""

NDCG: Final[Sequence[Row]] = (
    ("trec_eval", "`ndcg_cut.3`", "ndcg@3", "trec_eval"),
    ("sklearn", "`ndcg_score(k=3)`", "ndcg@3", "sklearn"),
    ("ranx", "`ndcg@3`", "ndcg@3", "ranx"),
    ("ranx", "`ndcg_burges@3`", "ndcg_burges@3", "ranx_burges"),
    ("lenskit", "`NDCG(3)`", "ndcg@3", "lenskit"),
    ("lenskit", '`NDCG(3, gain="rating")`', "ndcg@3 graded", "lenskit_graded"),
    ("torchmetrics", "`retrieval_normalized_dcg(top_k=3)`", "ndcg@3", "torchmetrics"),
    ("rectools", "`NDCG(3)`", "ndcg@3", "rectools"),
    ("rectools", "`NDCG(3, divide_by_achievable=True)`", "ndcg@3 achievable", "rectools_achievable"),
)

AVERAGE_PRECISION: Final[Sequence[Row]] = (
    ("trec_eval", "`map_cut.3`", "map@3", "trec_eval"),
    ("ranx", "`map@3`", "map@3", "ranx"),
    ("lenskit", "`AveragePrecision(3)`", "map@3", "lenskit"),
    ("torchmetrics", "`retrieval_average_precision(top_k=3)`", "map@3", "torchmetrics"),
    ("rectools", "`MAP(3)`", "map@3", "rectools"),
    ("rectools", "`MAP(3, divide_by_k=True)`", "map@3 divide_by_k", '`ap_denominator="k"`'),
)

SHOWN_FIELDS: Final = tuple(field.name for field in fields(Spec) if field.name != "err_grade_max")


def blocks() -> dict[str, str]:
    """The text between each pair of markers."""
    answers_by_library = {library: _asked(library) for library in LIBRARIES}
    return {"presets": _presets(), "ndcg": _table(NDCG, answers_by_library), "map": _table(AVERAGE_PRECISION, answers_by_library)}


def filled(text: str, contents: Mapping[str, str]) -> str:
    """The page with its blocks replaced. Raises ValueError if a pair of markers is missing or unknown."""
    matches = re.findall(r"<!-- begin ([a-z]+)", text)
    if sorted(matches) != sorted(contents):
        raise ValueError(f"{PAGE}: got blocks {matches}; allowed are {list(contents)}, each once")
    for name, content in contents.items():
        text = re.sub(
            rf"(<!-- begin {name}\b[^\n]*-->\n).*?(<!-- end {name} -->)",
            lambda match, new=content: match[1] + new + match[2],
            text,
            flags=re.S,
        )
    return text


def _asked(library: str) -> Answers:
    lists = list(LISTS.values())
    if library in NO_UNSEEN:
        lists = cases.without_unseen(lists)
    if library in ("lenskit", "rectools"):
        lists = cases.without_zeros(lists)
    return ask(library, lists, [K])


def _table(rows: Sequence[Row], answers_by_library: Mapping[str, Answers]) -> str:
    lines = [
        "| library | measure | " + " | ".join(f"`{name}`" for name in LISTS) + " | preset |",
        "|---" * 2 + "|--:" * len(LISTS) + "|---|",
    ]
    for library, shown_as, measure, made in rows:
        values = zip(LISTS.values(), answers_by_library[library][measure], strict=True)
        cells = [_cell(value) + ("*" if case.unseen and library in NO_UNSEEN else "") for case, value in values]
        lines.append(f"| {library} | {shown_as} | {' | '.join(cells)} | {made if made.startswith('`') else f'`{made}`'} |")
    return "\n".join(lines) + "\n"


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "left out" if math.isnan(value) else f"{value:.4f}"


def _presets() -> str:
    made = {name: make() for name, make in PRESETS.items()}
    lines = ["| field | default | " + " | ".join(f"`{name}`" for name in made) + " |", "|---" * (len(made) + 2) + "|"]
    for field in SHOWN_FIELDS:
        default = getattr(Spec(), field)
        differing = ["" if getattr(spec, field) == default else _spelled(getattr(spec, field)) for spec in made.values()]
        lines.append(f"| `{field}` | {_spelled(default)} | {' | '.join(differing)} |")
    return "\n".join(lines) + "\n"


def _spelled(value: object) -> str:
    return "any > 0" if value == ANY_GRADE else f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), blocks()))
    dismiss()
    print(f"written: {PAGE.relative_to(ROOT)}")
