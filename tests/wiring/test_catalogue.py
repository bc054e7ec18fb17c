"""The file of the catalogue: every form, and the first problem with its row and column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streammetrics.config.metrics import AssessmentSettings
from streammetrics.errors import ConfigError
from streammetrics.metrics.assessment import CatalogueItem
from streammetrics.wiring.catalogue import read_catalogue
from streammetrics.wiring.engine import build_engine
from tests.support.settings import by_flags

ROWS: list[dict[str, Any]] = [
    {"item_id": "a", "genre": "x", "year": 2001, "uses": 7, "users": 3},
    {"item_id": "b", "genre": None, "year": 2002, "uses": 0, "users": 0},
]


def settings(path: Path, **given: object) -> AssessmentSettings:
    fields = {"attributes": ("genre", "year"), "interactions_field": "uses", "users_field": "users", "users": 10}
    return AssessmentSettings(names=("novelty", "popularity_share"), catalogue_file=str(path), **{**fields, **given})  # type: ignore[arg-type]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    return path


@pytest.mark.parametrize("form", ["items.ndjson", "items.json", "items.csv", "items.tsv", "items.parquet"])
def test_every_form_gives_the_same_catalogue(tmp_path: Path, form: str) -> None:
    path = tmp_path / form
    if form == "items.parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif form == "items.json":
        written(path, json.dumps(ROWS))
    elif form == "items.ndjson":
        written(path, "".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        sign = "," if form == "items.csv" else "\t"
        written(
            path,
            "\n".join(sign.join("" if value is None else str(value) for value in row) for row in ([*ROWS[0]], *map(dict.values, ROWS)))
            + "\n",
        )
    catalogue = read_catalogue(settings(path))
    assert catalogue.items == {"a": CatalogueItem(("x", "2001"), 7, 3), "b": CatalogueItem(("", "2002"), 0, 0)}
    assert (catalogue.users, catalogue.interactions) == (10, 7)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "has no items"),
        ("[1]", "row 1 is not an object with columns"),
        ('{"item_id": "\udcff"}', "row 1 is not an object with columns: byte 0xff is no UTF-8 text"),
        (100_000 * '{"a":', "row 1 is not an object with columns"),
        ('{"id": "a"}', "row 1 has no id in column 'item_id', but None; its columns are id"),
        ('{"item_id": "a"}', "no row has a column 'genre'; the columns are item_id"),
        (json.dumps(ROWS[0]) + "\n" + json.dumps({**ROWS[1], "item_id": "a"}), "row 2 has item 'a' again"),
        (json.dumps({**ROWS[0], "uses": "many"}), "row 1 has 'many' in column 'uses'; allowed are whole numbers from 0"),
        (json.dumps({**ROWS[0], "users": 11}), "users up to all users, 10"),
        (json.dumps({**ROWS[0], "uses": 0}), "has no interactions in 'uses'"),
    ],
)
def test_the_first_problem_is_named(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_catalogue(settings(written(tmp_path / "items.ndjson", rows)))
    assert "assessment.catalogue_file" in str(caught.value)
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: .*No such file"):
        read_catalogue(settings(tmp_path / "none.csv"))


def test_state_belongs_to_the_content_of_the_catalogue(tmp_path: Path) -> None:
    def signature(name: str, uses: int) -> str:
        path = written(tmp_path / name, json.dumps({**ROWS[0], "uses": uses}))
        flags = {"assessment.names": "popularity_share", "assessment.catalogue_file": str(path), "assessment.interactions_field": "uses"}
        return str(build_engine(by_flags(flags).settings, ["events"]).signature)

    assert signature("one.ndjson", 7) == signature("same.ndjson", 7) != signature("other.ndjson", 8)
    assert "assessment[catalogue=" in signature("one.ndjson", 7)
    assert "assessment" not in str(build_engine(by_flags({}).settings, ["events"]).signature)
