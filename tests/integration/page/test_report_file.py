"""The page as one file with a report inside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from streammetrics.cli.commands.report import page_of
from streammetrics.cli.output.report_reader import read_report
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import History
from streammetrics.reports.published import encoded, published
from streammetrics.reports.report import Report
from tests.experiments.samples import experiment
from tests.integration.page.visits import HOSTILE, MINUS, Open, Visit
from tests.support.committed_state import MINUTE_MS
from tests.support.page_story import (
    EXPERIMENT,
    LONG_NAME,
    SIX,
    Story,
    mixed_experiment,
    with_experiments,
)


class TestReportFile:
    """`streammetrics report --html` writes the page with the report inside."""

    @pytest.fixture
    def written(self, tmp_path: Path, history: tuple[Story, list[Report]]) -> Callable[..., Path]:
        story, reports = history

        def write(*experiments: ExperimentReport) -> Path:
            at_ms = reports[-1].entered_ms or 0
            stored = History()
            for minutes in range(20, 0, -1):
                stored = stored.add(at_ms - minutes * MINUTE_MS, experiments)
            plain = json.loads(encoded(published(with_experiments(reports[-1], *experiments), story.pipeline.engine.layout, stored)))
            path = tmp_path / "report.html"
            path.write_bytes(page_of(read_report(plain, "report.json"), plain, "report.json", whole=True))
            return path

        return write

    @pytest.fixture
    def read(self, visit: Open) -> Callable[..., Visit]:
        return lambda path, **options: visit(path.parent.as_uri(), path.name, fake_clock=False, **options)

    @pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
    def test_four_experiments_need_three_screens_and_nothing_is_clipped(
        self, written: Callable[..., Path], read: Callable[..., Visit], width: int, scheme: str
    ) -> None:
        pair = {"control": 0.5, "treatment": 0.5}
        four = [experiment(SIX, name="six"), experiment(pair, name="flat"), mixed_experiment(), experiment(pair, name=LONG_NAME)]
        found = read(written(*four), viewport={"width": width, "height": 900}, color_scheme=scheme)
        expect(found.page.locator(".pill")).to_have_text("Report")
        expect(found.page.locator("#overview li")).to_have_count(4)
        expect(found.page.locator("header")).to_contain_text("from report.json")
        assert found.page.evaluate("document.documentElement.scrollWidth") <= width
        if width == 1280:
            assert found.page.evaluate("document.documentElement.scrollHeight") <= 3 * 900
        clipped = "found => found.filter((e) => e.clientWidth > 1 && e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)"
        assert found.page.locator("main :is(p, li, a, h2, td, th)").evaluate_all(clipped) == []

    def test_choices_and_curves_work_without_a_server(self, written: Callable[..., Path], read: Callable[..., Visit]) -> None:
        six = experiment(SIX, name=EXPERIMENT)
        found = read(written(six))
        expect(found.page.locator(f"#experiment-{EXPERIMENT}-lift canvas")).to_be_visible()
        expect(found.cell("Lift", "popularity").locator(".value")).to_have_text(re.compile(f"^{MINUS}37"))
        found.choose("Metric", "Hit rate")
        found.choose("Cut-off", "first 5")
        measure = next(each for each in six.variants[1].measures if (each.metric, each.k) == ("hit_rate", 5))
        expect(found.cell("Mean", six.variants[1].variant, group=1).locator(".value")).to_have_text(f"{measure.mean:.4f}")

    def test_names_in_a_file_are_never_markup(self, written: Callable[..., Path], read: Callable[..., Visit]) -> None:
        found = read(written(experiment({"control": 0.5, HOSTILE: 0.4}, name=f"</script>{HOSTILE}")))
        expect(found.page.locator("h2", has_text="</script>")).to_have_text(f"Experiment </script>{HOSTILE}")
        assert found.page.evaluate("[document.images.length, document.body.dataset.ran ?? null]") == [0, None]

    def test_paper_has_all_cards_and_no_controls(self, written: Callable[..., Path], read: Callable[..., Visit]) -> None:
        pair = {"control": 0.5, "treatment": 0.4}
        found = read(written(*(experiment(pair, name=f"e{number}") for number in range(5))))
        expect(found.page.locator(".fold[aria-expanded=true]")).to_have_count(1)
        found.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        found.page.emulate_media(media="print")
        expect(found.page.locator(".fold[aria-expanded=true]")).to_have_count(7)
        expect(found.page.locator("#choices")).to_be_hidden()
        assert found.page.locator("summary").count() > 0
        expect(found.page.locator("summary:visible")).to_have_count(0)  # paper cannot be unfolded
        assert len(found.page.pdf()) > 20_000
        found.page.emulate_media(media="screen")
        expect(found.page.locator(".fold[aria-expanded=true]")).to_have_count(1)

    def test_a_report_without_experiments_and_windows_says_so(self, tmp_path: Path, read: Callable[..., Visit]) -> None:
        path = tmp_path / "report.html"
        path.write_bytes(page_of(read_report({"experiments": []}, "x"), {"experiments": []}, "x", whole=True))
        expect(read(path).page.locator("#cards")).to_have_text("No experiment has final lists yet, up to an unknown time.")
