"""The README of the metric library shows the real values of other libraries."""

from __future__ import annotations

import pytest

from tests.metrics.golden import page


def test_the_page_shows_the_values_of_the_libraries() -> None:
    text = page.PAGE.read_text()
    assert page.filled(text, page.blocks()) == text, "update the page: python -m tests.metrics.golden.page"


def test_a_page_without_a_block_is_rejected() -> None:
    with pytest.raises(ValueError, match="allowed are"):
        page.filled("<!-- begin ndcg -->\n<!-- end ndcg -->", {"ndcg": "", "map": ""})


@pytest.mark.parametrize("rows", [page.NDCG, page.AVERAGE_PRECISION])
def test_no_two_conventions_of_the_page_agree_on_every_list_unless_their_spec_does(rows: tuple[page.Row, ...]) -> None:
    """Else the lists would not show the disagreement they are there for."""
    values = {library: page._asked(library) for library, *_ in rows}
    columns = {made: tuple(map(str, values[library][measure])) for library, _, measure, made in rows}
    same = {frozenset((one, other)) for one in columns for other in columns if one < other and columns[one] == columns[other]}
    assert same <= {frozenset(("trec_eval", "ranx"))}
