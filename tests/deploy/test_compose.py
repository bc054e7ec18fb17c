"""The Compose file: of the specification's shape, with settings that the product takes and commands that it has."""

from __future__ import annotations

import re
from typing import Any

import pytest

from streammetrics.cli.main import command_named
from streammetrics.config import load
from tests.deploy.tools import DEPLOY, assert_clean, program, read_yaml

FILE = DEPLOY / "compose.yaml"
COMPOSE = read_yaml(FILE)
OURS = {name: service for name, service in COMPOSE["services"].items() if service["image"] == "streammetrics"}


def interpolated(text: str) -> str:
    """A value as Compose gives it where no variable is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_the_file_is_of_the_compose_specification() -> None:
    assert_clean([program("check-jsonschema", "the package check-jsonschema"), "--builtin-schema", "vendor.compose-spec", FILE])


@pytest.mark.parametrize("name", OURS)
def test_every_process_of_ours_has_settings_and_a_command_that_the_product_takes(name: str) -> None:
    environ = {key: interpolated(str(value)) for key, value in OURS[name]["environment"].items()}
    assert load(None, environ, {}).warnings == ()
    command, *words = OURS[name]["command"]
    command_named(command).make_context(command, list(words))  # raises for words that it does not know


def test_all_processes_of_ours_compute_by_the_same_rules() -> None:
    def rules(service: dict[str, Any]) -> dict[str, str]:
        return {key: value for key, value in service["environment"].items() if not key.endswith("_GROUP_INSTANCE_ID")}

    assert {name: rules(service) for name, service in OURS.items()} == dict.fromkeys(OURS, rules(OURS["exporter"]))


def test_every_worker_is_a_member_of_its_own() -> None:
    workers = [service for service in OURS.values() if "worker" in service["command"]]
    members = {service["environment"]["STREAMMETRICS_KAFKA_GROUP_INSTANCE_ID"] for service in workers}
    assert len(members) == len(workers) == 2


def test_our_containers_have_no_rights_and_write_nowhere() -> None:
    for service in OURS.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_ports_are_published_on_the_loopback_address_only() -> None:
    published = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_every_image_but_ours_names_a_version() -> None:
    images = [service["image"] for service in COMPOSE["services"].values() if service not in OURS.values()]
    assert [image for image in images if not re.search(r":v?\d+\.\d+", image)] == []


def test_prometheus_scrapes_every_process_that_serves_and_loads_every_rule_file() -> None:
    prometheus = read_yaml(DEPLOY / "compose" / "prometheus.yml")
    targets = {target for job in prometheus["scrape_configs"] for group in job["static_configs"] for target in group["targets"]}
    assert targets == {f"{name}:9464" for name, service in OURS.items() if service["command"][0] == "run"}
    assert [job["job_name"] for job in prometheus["scrape_configs"]] == ["streammetrics"]
    rule_files = {path.name for path in (DEPLOY / "prometheus").glob("*.yml") if "groups" in (read_yaml(path) or {})}
    assert rule_files == {path.name for path in (DEPLOY / "prometheus").glob(prometheus["rule_files"][0].rpartition("/")[2])}


def test_every_mounted_file_exists() -> None:
    sources = [volume.partition(":")[0] for service in COMPOSE["services"].values() for volume in service.get("volumes", [])]
    mounted = [source for source in sources if source.startswith(".")]
    assert [source for source in mounted if not (DEPLOY / source).exists()] == []
