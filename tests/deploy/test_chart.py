"""The chart, as far as it can be judged without Helm: values with their meaning, and their schema. `make lint-deploy` renders it."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from streammetrics import __version__
from streammetrics.cli.commands.rules import PAGE
from streammetrics.config import keys, load
from tests.deploy.tools import CHART, VALUES, read_yaml

DEFAULTS = read_yaml(CHART / "values.yaml")
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
README = (CHART / "README.md").read_text(encoding="utf-8")
OPEN = {
    "config", "image.pullSecrets", "podSecurityContext", "securityContext", "serviceMonitor.basicAuth", "serviceMonitor.tlsConfig",
}  # fmt: skip
OF_KUBERNETES = {
    "pullPolicy", "podAnnotations", "podLabels", "nodeSelector", "tolerations", "affinity", "priorityClassName", "annotations",
}  # fmt: skip
"""Names that the documentation of Kubernetes explains."""
LEAVES = ("resources", "labels", "annotations", "podAnnotations", "podLabels", "nodeSelector", "affinity")


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its dotted name; what the chart hands on as it is counts as one."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and path not in OPEN and name not in LEAVES:
            yield from leaves(value, f"{path}.")
        else:
            yield path, value


def declared(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, child in schema.get("properties", {}).items():
        if child.get("properties"):
            yield from declared(child, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def explained() -> Iterator[str]:
    """Every value, or group of values, with a comment above it."""
    path: list[str] = []
    before = ""
    for line in (CHART / "values.yaml").read_text(encoding="utf-8").splitlines():
        if key := re.fullmatch(r"( *)(\w+):.*", line):
            path[len(key[1]) // 2 :] = [key[2]]
            if before.lstrip().startswith("#"):
                yield ".".join(path)
        before = line


def test_every_value_is_explained_in_the_file_of_values() -> None:
    explained_values = {*explained()}
    unexplained = [name for name, _ in leaves(DEFAULTS) if not {name, name.rpartition(".")[0]} & explained_values]
    assert [name for name in unexplained if name.rpartition(".")[2] not in OF_KUBERNETES] == []
    assert "(values.yaml)" in README


def test_the_rules_ask_for_the_job_that_is_scraped() -> None:
    monitor, rule = ((CHART / "templates" / f"{name}.yaml").read_text(encoding="utf-8") for name in ("servicemonitor", "prometheusrule"))
    assert "targetLabel: job\n          replacement: {{ .Values.serviceMonitor.job | quote }}" in monitor
    asked = f'job="{DEFAULTS["serviceMonitor"]["job"]}"'
    assert f"replace `{asked}` (" in rule
    rules = "".join(path.read_text(encoding="utf-8") for path in (CHART.parents[1] / "prometheus").glob("*_rules.yml"))
    assert set(re.findall(r'job="[^"$]*"', rules)) == {asked}


def test_the_value_of_the_page_replaces_the_address_in_the_rules() -> None:
    template = (CHART / "templates" / "prometheusrule.yaml").read_text(encoding="utf-8")
    assert f'replace "{PAGE}" $page' in template
    assert '$page := include "streammetrics.page" .' in template


def test_the_schema_knows_exactly_the_values_that_there_are() -> None:
    assert set(declared(SCHEMA)) - {"global"} == dict(leaves(DEFAULTS)).keys()


@pytest.mark.parametrize("path", [CHART / "values.yaml", *sorted(VALUES.glob("*.yaml"))], ids=lambda path: path.stem)
def test_values_fit_the_schema_and_their_configuration_fits_the_product(path: Path, tmp_path: Path) -> None:
    values = read_yaml(path)
    jsonschema.validate(values, SCHEMA)
    config, secret = tmp_path / "streammetrics.toml", tmp_path / "secret"
    config.write_text(values["config"], encoding="utf-8")
    secret.write_text("word\n", encoding="utf-8")
    named = {f"STREAMMETRICS_{entry['key'].upper().replace('.', '_')}_FILE": str(secret) for entry in values.get("secrets", [])}
    assert load(config, {**named, "STREAMMETRICS_KAFKA_GROUP_INSTANCE_ID": "ns.release-streammetrics-worker-0"}, {}).warnings == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("worker.replica", 3),
        ("worker.replicas", "3"),
        ("config", ""),
        ("http.scheme", "http"),
        ("page", "ranking.example"),
        ("grafana", "grafana.example"),
        ("ingress.host", "https://ranking.example"),
        ("image.digest", "latest"),
        ("worker.resources.cpu", 1),
    ],
)
def test_the_schema_refuses_misspelt_names_and_wrong_values(name: str, value: object) -> None:
    values = copy.deepcopy(DEFAULTS)
    *parents, leaf = name.split(".")
    place = values
    for parent in parents:
        place = place[parent]
    place[leaf] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, SCHEMA)


def test_only_what_the_product_calls_a_secret_comes_from_secrets() -> None:
    given = {secret["key"] for path in VALUES.glob("*.yaml") for secret in read_yaml(path).get("secrets", [])}
    assert given
    assert given <= {name for name, key in keys().items() if key.is_secret}


def test_no_secret_stands_in_a_value() -> None:
    for path in [CHART / "values.yaml", *VALUES.glob("*.yaml")]:
        config = tomllib.loads(read_yaml(path)["config"])
        assert [
            name for name, key in keys().items() if key.is_secret and name != "redis.url" and config.get(key.section, {}).get(key.leaf)
        ] == []


def test_the_chart_is_of_the_version_of_the_package() -> None:
    chart = read_yaml(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_rules_and_dashboards_are_held_once_and_not_in_the_chart() -> None:
    assert not (CHART / "files").exists()
