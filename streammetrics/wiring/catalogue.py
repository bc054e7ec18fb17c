"""Reads the catalogue of assessment metrics from its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from streammetrics.config import Settings
from streammetrics.config.metrics import AssessmentSettings
from streammetrics.connectors.file_formats.reader import FileReader
from streammetrics.errors import ConfigError, Problem, SourceError
from streammetrics.events.json_text import JsonError, decode_json
from streammetrics.metrics import MetricError
from streammetrics.metrics.assessment import AssessmentLayout, CatalogueItem, ItemCatalogue
from streammetrics.metrics.records import depends_on

ITEMS_MAX: Final = 5_000_000
"""Most items of a catalogue. It bounds the memory of each process: a few hundred bytes an item."""
_ROW_BYTES_MAX: Final = 1 << 20
_ROWS_AT_ONCE: Final = 10_000


def assessment_layout(settings: Settings) -> AssessmentLayout | None:
    """Return the columns of assessment metrics, with the catalogue; None without metrics. Raises ConfigError for a bad catalogue."""
    assessment = settings.assessment
    if not assessment.names:
        return None
    return AssessmentLayout(assessment.metrics, read_catalogue(assessment), assessment.fallback_label)


@lru_cache(maxsize=1)
def read_catalogue(assessment: AssessmentSettings) -> ItemCatalogue:
    """Return the catalogue, empty without a file. Raises ConfigError that names the row and the column of the first problem."""
    path, items, columns = assessment.catalogue_file, dict[str, CatalogueItem](), set[str]()
    if path is None:
        return ItemCatalogue({})
    try:
        for number, row in _rows(path):
            columns.update(row)
            item_id, item = _item(row, assessment)
            if item_id in items:
                raise _problem(path, f"row {number} has item {item_id!r} again")
            items[item_id] = item
            if len(items) > ITEMS_MAX:
                raise _problem(path, f"has more than {ITEMS_MAX} items")
        if not items:
            raise _problem(path, "has no items")
        wanted = [*assessment.attributes, *filter(None, (assessment.interactions_field, assessment.users_field))]
        if missing := [name for name in wanted if name not in columns]:
            raise _problem(path, f"no row has a column {missing[0]!r}; the columns are {', '.join(sorted(columns))}")
        catalogue = ItemCatalogue(items, assessment.users)
    except _RowError as error:
        raise _problem(path, f"row {number} {error}") from None
    except MetricError as error:
        raise _problem(path, str(error)) from error
    except (OSError, SourceError) as error:
        raise _problem(path, f"cannot be read: {error}") from error
    if depends_on(assessment.names, "interactions_field") and not catalogue.interactions:
        raise _problem(path, f"has no interactions in {assessment.interactions_field!r}")
    return catalogue


class _RowError(Exception):
    """A row of the catalogue breaks a rule."""


def _problem(path: str, rule: str) -> ConfigError:
    return ConfigError([Problem("assessment.catalogue_file", path, rule)])


def _rows(path: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = FileReader(path, _ROW_BYTES_MAX)
    try:
        while not reader.ended:
            for record in reader.take(_ROWS_AT_ONCE):
                try:
                    row = decode_json(record.value or b"", dict[str, Any])
                except JsonError as error:
                    raise _problem(path, f"row {record.offset} is not an object with columns: {error}") from None
                yield record.offset, row
    finally:
        reader.close()


def _item(row: Mapping[str, Any], assessment: AssessmentSettings) -> tuple[str, CatalogueItem]:
    item_id = row.get(assessment.item_field)
    if isinstance(item_id, int) and not isinstance(item_id, bool):
        item_id = str(item_id)
    if not isinstance(item_id, str) or not item_id:
        raise _RowError(f"has no id in column {assessment.item_field!r}, but {item_id!r}; its columns are {', '.join(row)}")
    values = tuple("" if (value := row.get(name)) is None else str(value) for name in assessment.attributes)
    return item_id, CatalogueItem(values, _count(row, assessment.interactions_field), _count(row, assessment.users_field))


def _count(row: Mapping[str, Any], field: str | None) -> int:
    """Return a whole number from 0, which may be text as in CSV. Without a field or a value it is 0."""
    value = None if field is None else row.get(field)
    if value is None:
        return 0
    try:
        number = int(value) if isinstance(value, str) or (isinstance(value, float) and value.is_integer()) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise _RowError(f"has {value!r} in column {field!r}; allowed are whole numbers from 0")
    return number
