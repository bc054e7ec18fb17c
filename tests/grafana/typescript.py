"""Check the dashboards against the TypeScript types of Grafana: wrong types and misspelt keys, also in options of panels.

    python -m tests.grafana.typescript

npm installs the types and the compiler into .cache once. Their versions are pinned, because the file with the dashboard type is not an
official entry of its package.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.grafana.reading import NAMES, committed, panels
from tests.tools.servers.tools import CACHE_DIRECTORY, find_tool

PACKAGES = ("@grafana/schema@13.2.3", "typescript@5.9.3")
RAW = "@grafana/schema/dist/types/raw"
OPTIONS = {"stat": "Stat", "table": "Table", "text": "Text", "timeseries": "Timeseries", "state-timeline": "Statetimeline"}
"""Kinds of panels with the names of their types."""
CUSTOM = {
    "timeseries": "Timeseries.FieldConfig",
    "state-timeline": "Statetimeline.FieldConfig",
    "table": "Table.FieldConfig",
    "stat": "Record<string, never>",
}
COMPILER = ("--noEmit", "--strict", "--skipLibCheck", "--module", "es2022", "--moduleResolution", "node", "--target", "es2022")

HEADER = f"""\
import type {{ AnnotationQuery, Dashboard }} from "{RAW}/dashboard/x/types.gen";
{"".join(f'import type * as {name} from "{RAW}/composable/{name.lower()}/panelcfg/x/types.gen";' + chr(10) for name in OPTIONS.values())}
// JSON has the values of an enum, not its names.
type Plain<T> = T extends string ? `${{T}}` : T extends object ? {{ [K in keyof T]: Plain<T[K]> }} : T;
// The general type lacks the fields that the Prometheus data source adds to an annotation.
type OfPrometheus = {{ expr: string; step: string; titleFormat: string; textFormat: string; tagKeys: string }};
type Annotated = Omit<Plain<Dashboard>, "annotations"> & {{ annotations: {{ list: Array<Plain<AnnotationQuery> & OfPrometheus> }} }};
"""


def source(dashboards: Mapping[str, Mapping[str, Any]]) -> str:
    """One constant a dashboard, a panel's options, a panel's own field settings and an override of them."""
    lines = [HEADER]
    for name, dashboard in dashboards.items():
        lines.append(f"export const {name}: Annotated = {json.dumps(dashboard)};")
        for panel in panels(dashboard):
            place = f"{name}_{panel['id']}"
            kind = panel["type"]
            lines.append(f"export const {place}_options: Plain<{OPTIONS[kind]}.Options> = {json.dumps(panel['options'])};")
            for number, custom in enumerate(_customs(panel)):
                lines.append(f"export const {place}_custom_{number}: Plain<Partial<{CUSTOM[kind]}>> = {json.dumps(custom)};")
    return "\n".join([*lines, ""])


def _customs(panel: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    fields = panel.get("fieldConfig")
    if fields is None:
        return
    yield fields["defaults"].get("custom", {})
    for override in fields["overrides"]:
        yield {
            override_property["id"].removeprefix("custom."): override_property["value"]
            for override_property in override["properties"]
            if override_property["id"].startswith("custom.")
        }


def compiler() -> Path:
    """The folder that holds types and compiler; it appears whole or not at all. MissingToolError without npm, RuntimeError if npm fails."""
    folder = CACHE_DIRECTORY / "grafana-types" / "_".join(package.rpartition("@")[2] for package in PACKAGES)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as scratch:
            command = [find_tool("npm"), "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock", "--prefix", scratch]
            done = subprocess.run([*command, *PACKAGES], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"npm could not fetch {' and '.join(PACKAGES)}:\n{done.stderr[-3000:]}")
            try:
                Path(scratch).rename(folder)
            except OSError:
                if not folder.is_dir():  # another process was faster
                    raise
            Path(scratch).mkdir(exist_ok=True)
    return folder


def type_errors(dashboards: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the compiler says, a line each; empty when all is well."""
    packages = compiler() / "node_modules"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "node_modules").symlink_to(packages)
        (folder / "dashboards.ts").write_text(source(dashboards), encoding="utf-8")
        command = [find_tool("node"), packages / "typescript" / "bin" / "tsc", *COMPILER, "dashboards.ts"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    assert bool(lines) is bool(done.returncode), f"the compiler ended with {done.returncode} with {lines}"
    return lines


if __name__ == "__main__":
    faults = type_errors({name: committed(name) for name in NAMES})
    print("\n".join(faults) or "no complaint")
    sys.exit(bool(faults))
