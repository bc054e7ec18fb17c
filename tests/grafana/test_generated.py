"""The committed dashboards are current, and they query the series of the table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from grafana import generate
from grafana.generate import FOLDER, dashboards, main
from grafana.known_series import BUCKET, KNOWN_SERIES
from grafana.queries import QueryError, loop, quantile, selector, state, state_rate
from streammetrics.exporters.prometheus.series import TABLE
from tests.grafana.reading import NAMES, committed, every_query, panels, parsed_form

NAME = re.compile(r"\b(streammetrics_\w+|process_\w+)")


def test_the_committed_files_are_current() -> None:
    wanted = {path.name: text for path, text in dashboards()}
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")} == wanted, (
        "write them with: python -m grafana.generate"
    )
    assert wanted == {path.name: text for path, text in dashboards()}


def test_outdated_missing_and_extra_files_are_reported_and_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "FOLDER", tmp_path)
    (tmp_path / "pipeline.json").write_text("{}", encoding="utf-8")
    (tmp_path / "gone.json").write_text("{}", encoding="utf-8")
    assert main(["--check"]) == 1
    assert sorted(line.split()[0] for line in capsys.readouterr().err.splitlines()) == [
        "experiment.json",
        "gone.json",
        "pipeline.json",
        "ranking.json",
    ]
    assert main([]) == 0
    assert main(["--check"]) == 0
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(NAMES)


def sample_names() -> Iterator[str]:
    """Yield every sample name. A histogram has one per part."""
    for series in KNOWN_SERIES.values():
        if series.kind == "histogram":
            yield from (series.name + suffix for suffix in (BUCKET, "_sum", "_count"))
        else:
            yield series.name


def test_every_queried_name_is_in_the_table() -> None:
    known = set(sample_names())
    for query in every_query():
        named = set(NAME.findall(parsed_form(query.expr)))
        assert named or "up{" in query.expr, query
        assert named <= known, query


def test_every_series_of_the_table_is_on_a_dashboard() -> None:
    chosen = {
        each["name"]: [option["value"] for option in each["options"]]
        for each in committed("ranking")["templating"]["list"]
        if each["name"] in ("metric", "engagement", "assessment")
    }
    forms = [parsed_form(query.expr) for query in every_query()]
    forms += [parsed_form(each["expr"]) for each in committed("pipeline")["annotations"]["list"]]
    for variable, names in chosen.items():
        repeated = [query for query in every_query() if f"${{{variable}}}" in query.expr]
        forms += [parsed_form(query.expr, **{variable: name}) for query in repeated for name in names]
    shown = {name.removesuffix("_bucket") for form in forms for name in NAME.findall(form)}
    assert {series.name for series in TABLE} <= shown


def test_dashboards_keep_their_uids() -> None:
    assert {name: committed(name)["uid"] for name in NAMES} == {name: f"streammetrics-{name}" for name in NAMES}


def test_ids_of_panels_and_letters_of_queries_are_unique() -> None:
    for name in NAMES:
        ids = [panel["id"] for panel in panels(committed(name), rows=True)]
        assert len(set(ids)) == len(ids)
        assert all(isinstance(each, int) and each > 0 for each in ids)
        for panel in panels(committed(name)):
            letters = [target["refId"] for target in panel.get("targets", ())]
            assert letters == sorted(set(letters)), panel["title"]


def test_panels_do_not_overlap_or_leave_the_grid() -> None:
    for name in NAMES:
        dashboard = committed(name)
        inside = [[row, *row.get("panels", ())] for row in dashboard["panels"] if row["type"] == "row" and row["collapsed"]]
        for shown in (dashboard["panels"], *inside):
            taken: set[tuple[int, int]] = set()
            for place in (panel["gridPos"] for panel in shown):
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
                assert not cells & taken
                assert max(x for x, _ in cells) < 24
                taken |= cells


def test_queries_with_unknown_series_or_labels_are_rejected() -> None:
    with pytest.raises(QueryError, match="streammetrics_ndgc is not in the table of series"):
        selector("streammetrics_ndgc")
    with pytest.raises(QueryError, match="streammetrics_tasks has no label topic; it has none"):
        selector("streammetrics_tasks", topic='="x"')
    with pytest.raises(QueryError, match="streammetrics_late_total has no label variant; it has topic"):
        state_rate("streammetrics_late_total", variant='="x"')


def test_committed_state_and_process_series_have_different_query_functions() -> None:
    with pytest.raises(QueryError, match="streammetrics_lag_records is a gauge of the loop"):
        state("streammetrics_lag_records")
    with pytest.raises(QueryError, match="streammetrics_commits_total is a counter of the loop"):
        state_rate("streammetrics_commits_total", [])
    with pytest.raises(QueryError, match="is a gauge of the state; expected a histogram of the loop"):
        quantile(0.5, "streammetrics_tasks")
    with pytest.raises(QueryError, match="streammetrics_tasks is a gauge of the state; expected a gauge or info of the loop"):
        loop("streammetrics_tasks", [])
