"""The stages of a rollout on the page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from streammetrics.reports.report import Report
from tests.experiments.stage_samples import rollout
from tests.integration.page.visits import Open, Serve, Visit, live, violations
from tests.support.page_story import Story, with_experiments


@pytest.fixture
def found(visit: Open, serve: Serve, history: tuple[Story, list[Report]]) -> Visit:
    """The page of a ramp from 5 % to half of the users."""
    story, reports = history
    shown = visit(serve(story.views(), *reports[:-1], with_experiments(reports[-1], rollout())).base, "")
    live(shown.page)
    return shown


def test_each_stage_has_its_shares_users_split_and_weight(found: Visit) -> None:
    (first, second) = rollout().stages
    stages = found.section("ramp").locator("table").filter(has=found.page.locator("caption", has_text="Stages of the rollout"))
    expect(stages.locator("caption")).to_have_text("Stages of the rollout: stage 2 of 2 runs now")
    rows = stages.locator("tbody tr")
    expect(rows.locator("th")).to_have_text(["5 %", "half\nruns now"], use_inner_text=True)
    expect(rows.nth(0)).to_contain_text("treatment 5\u00a0%")
    expect(rows.nth(1)).to_contain_text("treatment 50\u00a0%")
    for row, stage in ((rows.nth(0), first), (rows.nth(1), second)):
        for arm in stage.arms:
            expect(row).to_contain_text(f"{arm.users:,}")
    assert violations(found.page) == []
