"""Files that the package carries and that lie elsewhere in the repository, beside what they concern.

The wheel has copies of them, in the folder `files` of this room. Without the copies, a checkout is what is installed.
"""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

_PLACES: Final = {
    "glossary.md": ".github/docs/glossary.md",
    "runbooks": "deploy/runbooks",
    "prometheus": "deploy/prometheus",
    "grafana": "grafana",
}


def package_file(name: str) -> Traversable:
    """Return a file or a folder of the package.

    >>> sorted(file.name for file in package_file("prometheus").iterdir())
    ['alerting_rules.yml', 'alertmanager.yml', 'recording_rules.yml']
    """
    copies = resources.files(__package__) / "files"
    if copies.is_dir():
        return copies / name
    return Path(__file__).parents[2] / _PLACES[name]
