"""Builds the site of MkDocs from the pages in their folders.

A page keeps its place: deploy/README.md becomes deploy/index.md. Pages of the root and of .github go to project/. Links between pages
become links inside the site. Links to other files lead to the repository. The pages of commands and settings are generated.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
OWN = ".github/docs"
LEFT_OUT = {".github/PULL_REQUEST_TEMPLATE.md"}
SECTIONS = {"deploy": "Run it", "streammetrics": "What the numbers mean"}
"""The section of a page that the navigation does not name, by its first folder."""
_LINK = re.compile(r"(!?\[[^\]]*\]\()(?!https?://|#|mailto:)([^)#\s]+)(#[^)]*)?\)")
_CODE = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)


def sources() -> dict[str, str]:
    """Return the place of every page and picture in the site, by its path in the repository."""
    listed = subprocess.run(["git", "ls-files", "*.md", "*.png"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    found = [path for path in listed if path not in LEFT_OUT and not path.startswith(OWN)]
    own = [f"{OWN}/{path.relative_to(ROOT / OWN)}" for path in sorted((ROOT / OWN).rglob("*.md"))]
    return {path: _place(path) for path in [*found, *own]}


def _place(path: str) -> str:
    if path.startswith(OWN):
        return path.removeprefix(f"{OWN}/")
    folder, name = posixpath.split(path)
    name = "index.md" if name == "README.md" else name
    return f"project/{name}" if folder == ".github" or (folder == "" and name != "index.md") else posixpath.join(folder, name)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the runbook pages into the navigation, and each page that it does not name into the section of its folder."""
    sys.path.insert(0, str(ROOT))
    assert config.nav is not None
    sections = {name: entries for each in config.nav for name, entries in each.items()}
    places = sorted(place for place in sources().values() if place.endswith(".md"))
    alerts = [place for place in places if place.startswith("deploy/runbooks/")]
    runbooks = [{posixpath.basename(place).removeprefix("Streammetrics").removesuffix(".md"): place} for place in alerts]
    next(each for each in sections["Run it"] if isinstance(each, dict) and "Alerts" in each)["Alerts"] = runbooks
    named = str(config.nav)
    for place in places:
        if f"'{place}'" not in named:
            sections[SECTIONS.get(place.partition("/")[0], "Project")].append(place)
    config.watch = [str(ROOT / path) for path in sources()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository and the generated ones."""
    for path, place in sources().items():
        if not path.startswith(OWN):
            files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "commands.md", content=commands()))
    files.append(File.generated(config, "settings.md", content=settings()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of a page to their place."""
    places = sources()
    path = next((path for path, place in places.items() if place == page.file.src_uri), None)
    if path is None:
        return markdown
    folder = posixpath.dirname(path)

    def led(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[2]))
        if target in places:
            link = posixpath.relpath(places[target], posixpath.dirname(page.file.src_uri) or ".")
        elif (ROOT / target).exists():
            link = f"{config.repo_url}/{'tree' if (ROOT / target).is_dir() else 'blob'}/main/{target}"
        else:
            link = found[2]  # MkDocs reports it
        return f"{found[1]}{link}{found[3] or ''})"

    parts = _CODE.split(markdown)
    return "".join(part if at % 2 else _LINK.sub(led, part) for at, part in enumerate(parts))


def commands() -> str:
    """Return a page with the help of every command."""
    from streammetrics.cli.main import NAMES, command_named  # noqa: PLC0415  after on_config

    return "# Commands\n\n" + "".join(_helps({name: command_named(name) for name in NAMES}, "streammetrics"))


def _helps(commands: Mapping[str, click.Command], before: str) -> list[str]:
    texts = []
    for name, command in commands.items():
        title = f"{before} {name}"
        if isinstance(command, click.Group):
            texts += _helps(command.commands, title)
        else:
            context = click.Context(command, info_name=title, max_content_width=100, terminal_width=100)
            texts.append(f"## {title}\n\n```text\n{command.get_help(context)}\n```\n\n")
    return texts


def settings() -> str:
    """Return a page with the reference configuration."""
    from streammetrics.config import reference_toml  # noqa: PLC0415

    return f"# Settings\n\n`streammetrics config --reference --all` prints this file.\n\n```toml\n{reference_toml(whole=True)}```\n"
