"""Tests of password hashes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammetrics.config import (
    PasswordHash,
    hash_password,
)
from tests.support.settings import PASSWORD_HASH, REFERENCE, problems_of


@given(st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=40), st.text(max_size=40))
@settings(max_examples=4, deadline=None)  # hashing is slow on purpose
def test_a_hash_matches_only_its_password(password, other):
    stored = PasswordHash.parse(hash_password(password))
    assert stored.matches(password.encode())
    assert stored.matches(other.encode("utf-8", "replace")) == (other == password)


def test_the_command_in_the_reference_file_prints_a_hash():
    (command,) = [line.removeprefix("# ") for line in REFERENCE.read_text().splitlines() if "hash_password" in line]
    assert command.startswith("python -c '")
    done = subprocess.run(
        command.replace("python", sys.executable, 1), shell=True, input="open sesame\n", capture_output=True, text=True,
        start_new_session=True, check=True, cwd=REFERENCE.parent.parent,
    )  # fmt: skip  # without a terminal it reads standard input
    assert PasswordHash.parse(done.stdout.strip().rpartition(" ")[2]).matches(b"open sesame")


def test_two_hashes_of_a_password_differ_and_repr_shows_neither():
    one, other = hash_password("open sesame"), hash_password("open sesame")
    assert one != other
    assert one.startswith("scrypt:16384:8:1:")
    assert not set("$`'\"\\ ") & set(one)
    assert one.split(":")[4] not in repr(PasswordHash.parse(one))


@pytest.mark.parametrize("password", ["", "a\n", "\x00"])
def test_an_empty_or_unprintable_password_is_rejected(password):
    with pytest.raises(ValueError, match="at least one character"):
        hash_password(password)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("open sesame", "has the form scrypt:N:r:p:SALT:DIGEST"),
        ("scrypt:16384:8:1:c2FsdA", "has the form"),
        ("scrypt:1024:8:1:{salt}:{digest}", "N must be a power of two from 16384 to 131072"),
        ("scrypt:20000:8:1:{salt}:{digest}", "N must be a power of two"),
        ("scrypt:262144:8:1:{salt}:{digest}", "N must be a power of two"),
        ("scrypt:16384:4:1:{salt}:{digest}", "r from 8 to 32"),
        ("scrypt:16384:8:0:{salt}:{digest}", "p from 1 to 4"),
        ("scrypt:131072:32:1:{salt}:{digest}", "128 * N * r, the memory of one login in bytes, must be at most 268435456"),
        ("scrypt:16384:8:1:c2FsdA:{digest}", "the salt must have 16 to 64 bytes, and the digest 32"),
        ("scrypt:16384:8:1:{salt}:{salt}", "the salt must have 16 to 64 bytes, and the digest 32"),
        ("scrypt:16384:8:1:{salt}:{digest}xx", "not base64"),
    ],
)
def test_an_invalid_hash_is_rejected_with_the_rule(text, rule):
    salt, digest = PASSWORD_HASH.split(":")[4:]
    (problem,) = problems_of(flags={"http.username": "u", "http.password_hash": text.format(salt=salt, digest=digest)})
    assert (problem.key, problem.value) == ("http.password_hash", "***")
    assert rule in problem.allowed


@pytest.mark.parametrize("password", [b"open sesame\0", b"open sesame\0\0", b"\0open sesame", b"open\0sesame"])
def test_a_password_with_a_nul_byte_never_matches(password: bytes) -> None:
    """HMAC pads keys with NUL bytes, so that scrypt alone would accept the first two."""
    assert not PasswordHash.parse(hash_password("open sesame")).matches(password)
