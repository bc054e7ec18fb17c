"""The files that Grafana reads at its start name existing files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.grafana.reading import FOLDER, NAMES

PROVISIONING = FOLDER / "provisioning"


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_the_data_source_url_comes_from_the_environment() -> None:
    (source,) = read(PROVISIONING / "datasources" / "prometheus.yaml")["datasources"]
    assert (source["type"], source["url"], source["isDefault"]) == ("prometheus", "${PROMETHEUS_URL}", True)


def test_dashboards_are_read_from_one_folder() -> None:
    (provider,) = read(PROVISIONING / "dashboards" / "streammetrics.yaml")["providers"]
    assert (provider["type"], provider["folder"], provider["allowUiUpdates"]) == ("file", "streammetrics", False)
    assert provider["options"]["path"] == "/var/lib/grafana/dashboards"
    assert sorted(path.name for path in FOLDER.glob("*.json")) == sorted(f"{name}.json" for name in NAMES), (
        "Grafana reads all files of the folder"
    )


def test_every_provisioning_file_has_a_kind_that_grafana_reads() -> None:
    paths = {path.relative_to(PROVISIONING).parts for path in PROVISIONING.rglob("*") if path.is_file()}
    assert paths == {("datasources", "prometheus.yaml"), ("dashboards", "streammetrics.yaml")}
    assert all(read(PROVISIONING.joinpath(*parts))["apiVersion"] == 1 for parts in paths)
