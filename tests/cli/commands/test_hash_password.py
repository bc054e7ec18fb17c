"""Tests of `hash-password`: from standard input, and from a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from streammetrics.config import PasswordHash, read_htpasswd
from tests.support.command_line import COMMAND, called, environment, streammetrics
from tests.support.paths import ROOT


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_the_hash_of_a_line_is_printed(ending: bytes) -> None:
    done = streammetrics("hash-password", "--cost", "10", stdin="open ⚡".encode() + ending, environ={"PYTHONUTF8": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    assert PasswordHash.parse(done.stdout.strip()).matches("open ⚡".encode())


def test_lines_with_user_names_make_an_htpasswd_file(tmp_path: Path) -> None:
    lines = [called("hash-password", "--cost", "10", "--username", name, stdin=name.encode()).stdout for name in ("ada", "bob")]
    (tmp_path / "htpasswd").write_text("".join(lines))
    users = read_htpasswd(tmp_path / "htpasswd")
    assert {name: stored.matches(name.encode()) for name, stored in users.items()} == {"ada": True, "bob": True}


def test_a_terminal_is_asked_twice_and_shows_no_password() -> None:
    parent, child = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "hash-password", "--cost", "10"], stdin=child, stderr=child, stdout=subprocess.PIPE, cwd=ROOT, env=environment(),
        text=True, start_new_session=True,
    ) as process:  # fmt: skip
        output = b""
        for prompt in (b"Password: ", b"Repeat for confirmation: "):
            while not output.endswith(prompt):
                output += os.read(parent, 1_000)
            os.write(parent, b"open sesame\n")
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 0
    assert PasswordHash.parse(printed.strip()).matches(b"open sesame")
    assert b"sesame" not in output


@pytest.mark.parametrize(
    ("words", "stdin", "code", "message"),
    [
        ([], b"", 1, "a password needs at least one character"),
        ([], b"x" * 73, 1, "at most 72 bytes"),
        (["--username", "a:b"], b"x", 2, "no colon"),
        (["--username", ""], b"x", 2, "a name has printable characters"),
        (["--cost", "9"], b"x", 2, "is not in the range 10<=x<=15"),
    ],
)
def test_what_cannot_be_hashed_is_rejected(words: list[str], stdin: bytes, code: int, message: str) -> None:
    done = called("hash-password", *words, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
