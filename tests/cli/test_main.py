"""Tests of the command line: help, version, exit codes, and configuration errors."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tomllib
from itertools import product
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from streammetrics import __version__
from streammetrics.cli.commands.gate import NO_DECISION
from streammetrics.cli.main import GROUPS, NAMES, command_named, main
from streammetrics.cli.traffic_plan import STDOUT, SimulateOptions, plan_of
from streammetrics.errors import ConfigError
from tests.support.command_line import environment, streammetrics
from tests.support.paths import ROOT
from tests.support.tables import for_each
from tests.tools.servers.process import free_port

COMMANDS = ("run", "replay", "report", "simulate", "demo", "doctor", "namespaces list", "namespaces delete", "repartition", "check-config")
COMMANDS += ("spark", "decode", "plan", "gate")
"""The commands that take a configuration."""
WITHOUT_CONFIG = ("rules", "dashboards", "config", "hash-password")
"""The commands that need none."""
NEEDED = {
    "replay": ["events.ndjson"],
    "spark": ["events.ndjson"],
    "decode": ["events.ndjson"],
    "gate": ["ranker"],
    "simulate": ["--out", "events.ndjson"],
    "namespaces delete": ["sm-1"],
}
"""Required arguments of commands."""


def invoke(*words: str, environ: dict[str, str] | None = None) -> Result:
    return CliRunner(env=environ).invoke(main, words)


def top_commands() -> dict[str, click.Command]:
    return {name: command_named(name) for name in NAMES}


def commands() -> dict[str, click.Command]:
    """Return every command by name; commands of a group are `group command`."""
    by_name: dict[str, click.Command] = {}
    for name, command in top_commands().items():
        inner = command.commands if isinstance(command, click.Group) else {}
        by_name |= {f"{name} {below}": command for below, command in inner.items()} or {name: command}
    return by_name


def test_the_tests_cover_all_commands() -> None:
    assert sorted(commands()) == sorted([*COMMANDS, *WITHOUT_CONFIG])


def test_the_version_is_printed() -> None:
    assert invoke("--version").output == f"streammetrics, version {__version__}\n"


@for_each([*COMMANDS, *WITHOUT_CONFIG])
def test_help_has_a_description_and_examples(name: str) -> None:
    result = invoke(*name.split(), "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert f"streammetrics {name}" in result.output
    assert ("--config" in result.output and "--set" in result.output) == (name in COMMANDS)


def test_the_list_of_commands_has_whole_sentences_in_groups() -> None:
    text = invoke("--help").output
    assert "..." not in text.replace("[ARGS]...", "")
    lines = text.splitlines()
    heads = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert heads == ["Options:", *(f"{title}:" for title in GROUPS)]
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in NAMES]
    assert listed == list(NAMES)


def test_the_list_has_the_name_and_the_first_sentence_of_every_command() -> None:
    listed = {name: sentence for group in GROUPS.values() for name, sentence in group.items()}
    assert listed == {command.name: command.get_short_help_str(limit=200) for command in top_commands().values()}


def test_a_gate_that_cannot_be_imported_or_is_interrupted_has_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (ImportError("gone"), KeyboardInterrupt()):

        def fail(name: str, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr("streammetrics.cli.main.command_named", fail)
        assert invoke("gate", "ranker").exit_code == NO_DECISION


def test_the_help_of_a_group_has_examples_of_its_commands() -> None:
    for name, group in top_commands().items():
        if isinstance(group, click.Group):
            text = invoke(name, "--help").output
            assert "Examples:" in text
            examples = [line.split()[2:] for line in text.splitlines() if line.startswith(f"    streammetrics {name} ")]
            assert {words[0] for words in examples} == set(group.commands)
            for words in examples:
                group.commands[words[0]].make_context(words[0], words[1:])


@pytest.mark.parametrize("name", ["run", "demo"])
def test_serving_commands_have_a_port_option(name: str) -> None:
    assert "--port" in invoke(*name.split(), "--help").output
    assert invoke(*name.split(), "--port", "65536").exit_code == 2


@for_each([*COMMANDS, *WITHOUT_CONFIG])
def test_every_example_in_a_help_text_parses(name: str) -> None:
    lines = [line.strip() for line in (commands()[name].help or "").splitlines()]
    examples = [
        re.split("[|>]", line.partition(f"streammetrics {name}")[2])[0].split() for line in lines if f"streammetrics {name}" in line
    ]
    assert examples
    for words in examples:
        commands()[name].make_context(name, words)


def test_help_does_not_import_the_commands() -> None:
    code = (
        "import sys\nfrom streammetrics.cli.main import main\nmain(['--help'], standalone_mode=False)\nprint(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment(), check=True)
    loaded = set(done.stderr.split())
    assert "click" in loaded
    assert not loaded & {"pydantic", "rich", "kafka", "redis", "uvicorn", "starlette", "prometheus_client", "streammetrics.engine.engine"}


@for_each(COMMANDS)
def test_all_configuration_errors_are_reported_with_exit_code_2(name: str) -> None:
    wrong = ["--set", "join.gap_ms=-1", "--set", "windows.pane_ms=none", "--set", "kafka.topic=clicks"]
    result = invoke(*name.split(), *NEEDED.get(name, []), *wrong)
    assert result.exit_code == 2
    assert "3 problems:" in result.stderr
    assert "join.gap_ms = -1 (from command line): must be a whole number from 0" in result.stderr
    assert "windows.pane_ms = none" in result.stderr
    assert "did you mean kafka.topics?" in result.stderr
    assert result.stdout == ""


@for_each(COMMANDS)
def test_wrong_usage_exits_with_2(name: str) -> None:
    assert invoke(*name.split(), "--no-such-option").exit_code == 2
    for given in ("join.gap_ms", "=600000", " =600000"):
        result = invoke(*name.split(), *NEEDED.get(name, []), "--set", given)
        assert result.exit_code == 2
        assert "--set KEY=VALUE" in result.stderr
    result = invoke(*name.split(), *NEEDED.get(name, []), "--config", "no/such/file.toml")
    assert result.exit_code == 2
    assert "no/such/file.toml" in result.stderr


def options_of(kind: type[click.ParamType]) -> list[tuple[str, str]]:
    """Return every option of this type, with its command."""
    return [(name, option.opts[0]) for name, command in commands().items() for option in command.params if isinstance(option.type, kind)]


NUMBERS, WHOLE_NUMBERS = options_of(click.types.FloatParamType), options_of(click.types.IntParamType)


def test_the_tests_find_the_float_options() -> None:
    assert {("demo", "--rate"), ("demo", "--seconds"), ("simulate", "--minutes"), ("simulate", "--rate")} <= {*NUMBERS}


@for_each(product(NUMBERS, ["nan", "inf", "-inf"]))
def test_a_number_that_is_not_finite_is_rejected(case: tuple[tuple[str, str], str]) -> None:
    (name, option), given = case
    result = invoke(*name.split(), *NEEDED.get(name, []), option, given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Invalid value for '{option}': {given} is not a finite number." in " ".join(result.stderr.split())


def test_too_many_minutes_are_rejected() -> None:
    result = invoke("simulate", *NEEDED["simulate"], "--minutes", "1e306")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Invalid value for '--minutes': 1e+306 is not in the range" in " ".join(result.stderr.split())


def test_the_tests_find_the_integer_options() -> None:
    assert {("run", "--port"), ("demo", "--seed"), ("simulate", "--users"), ("simulate", "--seed")} <= {*WHOLE_NUMBERS}


@for_each(product(WHOLE_NUMBERS, [str(2**63), "-1", "9" * 5_000]))
def test_an_invalid_integer_is_rejected(case: tuple[tuple[str, str], str]) -> None:
    (name, option), given = case
    result = invoke(*name.split(), *NEEDED.get(name, []), option, given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"Invalid value for '{option}'" in result.stderr


@pytest.mark.parametrize("option", ["--users", "--seed", "--rate"])
def test_the_help_of_simulate_shows_the_bounds_of_traffic(option: str) -> None:
    (kind,) = [param.type for param in commands()["simulate"].params if option in param.opts]
    assert isinstance(kind, click.IntRange | click.FloatRange)
    assert kind.min is not None
    assert kind.max is not None
    name = option.removeprefix("--")
    for bound, beyond in ((kind.min, kind.min - 1), (kind.max, kind.max + 1)):
        plan_of(SimulateOptions(**{"out": (STDOUT,), name: bound}), ("impressions", "feedback"), 0)
        with pytest.raises(ConfigError):
            plan_of(SimulateOptions(**{"out": (STDOUT,), name: beyond}), ("impressions", "feedback"), 0)
        result = invoke("simulate", *NEEDED["simulate"], option, str(beyond))
        assert result.exit_code == 2
        assert f"Invalid value for '{option}'" in result.stderr
    assert f"<=x<={kind.max}" in " ".join(invoke("simulate", "--help").output.split())


def test_unavailable_servers_and_damaged_files_exit_with_1(tmp_path: Path) -> None:
    closed = f"127.0.0.1:{free_port()}"
    places = ["--set", f"kafka.bootstrap_servers={closed}", "--set", f"redis.url=redis://{closed}/0"]
    assert invoke("doctor", *places).exit_code == 1
    result = invoke("simulate", "--kafka", *places)
    assert result.exit_code == 1
    assert closed in result.stderr
    for words in (["namespaces", "list"], ["report"]):
        result = invoke(*words, *places)
        assert (result.exit_code, result.stdout) == (1, "")
        instead = "; or name a report FILE, or an exporter by client.url" if words == ["report"] else ""
        assert result.stderr.endswith(f"Connection refused; check that Redis runs, and redis.url{instead}\n")
    damaged = tmp_path / "events.ndjson.gz"
    damaged.write_bytes(gzip.compress(b"{}\n" * 10_000)[:-20])
    result = invoke("replay", str(damaged))
    assert result.exit_code == 1
    assert str(damaged) in result.stderr


def test_check_config_prints_every_setting_with_its_origin_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "streammetrics.toml"
    path.write_text("[join]\ngap_ms = 600_000\nlateness_ms = 1000\n")
    environ = {"STREAMMETRICS_JOIN_LATENESS_MS": "2000", "STREAMMETRICS_REDIS_PASSWORD": "hunter2", "STREAMMETRICS_CONFIG": str(path)}
    result = invoke("check-config", "--set", "http.port=0", environ=environ)
    assert result.exit_code == 0
    settings = tomllib.loads(result.stdout)
    assert settings["join"]["gap_ms"] == 600_000
    assert settings["join"]["lateness_ms"] == 2_000
    assert f"gap_ms = 600_000  # file {path}" in result.stdout
    assert "lateness_ms = 2000  # environment STREAMMETRICS_JOIN_LATENESS_MS" in result.stdout
    assert "port = 0  # command line" in result.stdout
    assert "idle_ms = 30_000  # default" in result.stdout
    assert 'password = "***"' in result.stdout
    assert "hunter2" not in result.output


def test_errors_contain_no_secret() -> None:
    result = invoke("check-config", "--set", "redis.url=http://:hunter2@cache", "--set", "redis.password=hunter2")
    assert result.exit_code == 2
    assert "redis.url" in result.stderr
    assert "hunter2" not in result.output


def test_warnings_go_to_standard_error_and_the_command_continues() -> None:
    result = invoke("check-config", "--set", "join.gap_ms=1000")
    assert result.exit_code == 0
    assert "warning: join.attribution_ms (1800000) exceeds join.gap_ms (1000)" in result.stderr
    assert "warning" not in result.stdout


def started(words: str, unbuffered: str) -> tuple[list[str], dict[str, str]]:
    """Return a command line and its environment, for any working directory and buffering."""
    around = environment() | {"PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": str(ROOT)}
    return [sys.executable, "-m", "streammetrics", *words.split()], around


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_ends_a_command_silently(unbuffered: str, tmp_path: Path) -> None:
    command, around = started("simulate --out - --minutes 30", unbuffered)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, env=around) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() != b""
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_partial_write_is_an_error(unbuffered: str, tmp_path: Path) -> None:
    """A partial write returns a byte count, which Python's unbuffered output ignores."""
    command, around = started("check-config", unbuffered)
    around["PYTHONDONTWRITEBYTECODE"] = "1"  # the limit would truncate cached bytecode too
    out = tmp_path / "out"
    shell = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *command]
    with out.open("wb") as file:
        done = subprocess.run(shell, stdout=file, stderr=subprocess.PIPE, env=around, check=False, text=True)
    assert 0 < out.stat().st_size <= 1024
    assert (done.returncode, done.stderr) == (1, "streammetrics: standard output: File too large\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--help", "--version", "check-config", "report --help", "simulate --out - --minutes 0.1"])
def test_a_full_disk_is_reported_in_one_line(words: str, unbuffered: str, tmp_path: Path) -> None:
    command, around = started(words, unbuffered)
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=around, cwd=tmp_path, check=False, text=True)
    assert (done.returncode, done.stderr) == (1, "streammetrics: standard output: No space left on device\n")


def test_the_package_can_be_run_as_a_module() -> None:
    done = streammetrics("--version")
    assert (done.returncode, done.stdout) == (0, f"streammetrics, version {__version__}\n")


def test_every_option_of_every_command_has_a_help_text() -> None:
    options = [option for name in (*COMMANDS, *WITHOUT_CONFIG) for option in commands()[name].params if isinstance(option, click.Option)]
    assert options
    assert [option.name for option in options if not option.help] == []


def test_a_run_with_a_retry_limit_gives_up_on_an_unavailable_store() -> None:
    nowhere = f"redis.url=redis://127.0.0.1:{free_port()}/0"
    done = streammetrics("run", "--port", "0", "--set", nowhere, "--set", "worker.retry_seconds_max=1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("streammetrics: Redis at 127.0.0.1:")
