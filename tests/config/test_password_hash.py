"""Tests of password hashes and htpasswd files."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streammetrics.config import PasswordHash, hash_password, read_htpasswd
from streammetrics.errors import ConfigError
from tests.support.settings import by_flags, problems_of
from tests.support.tables import for_each

BY_HTPASSWD = {
    "scraper": ("open sesame", "$2y$05$/xpWChrMWbXF6pas1g8nf.YyX2xO9qi2f8HAIrFpeIrDbigNo7Usm"),
    "ünï": ("pässword ⚡", "$2y$10$VLdsezjHontddh5AHI5xCe/WNaFXgnGe1Pw4QoeWSIRfGTTdKfsMe"),
}
"""Users, passwords and hashes as Apache's `htpasswd -nbB` 2.4 wrote them."""
BY_OPENBSD = "$2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe"
"""The hash of "a", from the test vectors of bcrypt's authors."""
HASH = "$2b$04$n5OCelrZc86r7QkNoB6GHekrZMWwJf7IazkRQz82aq0m8sC23AjoW"
"""A hash of "open sesame" at the lowest cost. It is fixed, because each process that runs tests must find the same ones."""


@given(st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=18), st.text(max_size=18))
@settings(max_examples=20, deadline=None)  # hashing is slow on purpose
def test_a_hash_matches_only_its_password(password: str, other: str) -> None:
    stored = PasswordHash.parse(hash_password(password, cost=4))
    assert stored.matches(password.encode())
    assert stored.matches(other.encode("utf-8", "replace")) == (other == password)


@pytest.mark.parametrize(("password", "text"), [*BY_HTPASSWD.values(), ("a", BY_OPENBSD)])
def test_hashes_of_other_programs_match(password: str, text: str) -> None:
    stored = PasswordHash.parse(text)
    assert stored.matches(password.encode())
    assert not stored.matches(password.upper().encode())


def test_new_hashes_cost_enough_and_no_two_are_equal_and_repr_shows_none() -> None:
    one, other = hash_password("open sesame"), hash_password("open sesame")
    assert one != other
    assert PasswordHash.parse(one).cost == 12
    assert one[7:] not in repr(PasswordHash.parse(one))


@pytest.mark.parametrize("password", ["", "a\n", "\x00"])
def test_an_empty_or_unprintable_password_is_rejected(password: str) -> None:
    with pytest.raises(ValueError, match="at least one character"):
        hash_password(password)


def test_a_password_that_bcrypt_would_cut_off_is_rejected() -> None:
    assert PasswordHash.parse(hash_password("ä" * 36, cost=4)).matches(("ä" * 36).encode())
    with pytest.raises(ValueError, match="at most 72 bytes"):
        hash_password("ä" * 36 + "x")
    assert not PasswordHash.parse(hash_password("x" * 72, cost=4)).matches(b"x" * 73)


@pytest.mark.parametrize("password", [b"open sesame\0", b"open sesame\0open sesame", b"\0open sesame", b"open\0sesame"])
def test_a_password_with_a_nul_byte_never_matches(password: bytes) -> None:
    """bcrypt repeats the password with a NUL byte between, so the second one has the hash of the plain one."""
    assert not PasswordHash.parse(HASH).matches(password)


@for_each(
    [
        ("open sesame", "is no bcrypt hash"),
        (HASH[:-1], "is no bcrypt hash"),
        (HASH + "x", "is no bcrypt hash"),
        ("$apr1$mnc9UvPi$SOXKzrnse87tsoCHMDfyH1", "is no bcrypt hash"),
        ("$2x$" + HASH[4:], "is no bcrypt hash"),
        ("$2b$03$" + HASH[7:], "must be from 4 to 15"),
        ("$2b$16$" + HASH[7:], "must be from 4 to 15"),
        (HASH[:28] + "9" + HASH[29:], "the salt of the bcrypt hash cannot be read"),
    ]
)
def test_an_invalid_hash_is_rejected_with_the_rule(case: tuple[str, str]) -> None:
    text, rule = case
    (problem,) = problems_of(flags={"http.username": "u", "http.password_hash": text})
    assert (problem.key, problem.value) == ("http.password_hash", "***")
    assert rule in problem.allowed


def test_a_cheap_hash_is_accepted_with_a_warning() -> None:
    (warning,) = by_flags({"http.username": "u", "http.password_hash": HASH}).warnings
    assert "http.password_hash has a cost below 10" in warning


class TestHtpasswd:
    def test_a_file_of_htpasswd_has_its_users(self, tmp_path: Path) -> None:
        path = tmp_path / "htpasswd"
        path.write_text("# team\n\n" + "".join(f"{name}:{text}\n" for name, (_, text) in BY_HTPASSWD.items()), encoding="utf-8")
        users = read_htpasswd(path)
        assert {name: users[name].matches(password.encode()) for name, (password, _) in BY_HTPASSWD.items()} == dict.fromkeys(users, True)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "the file has 0 users"),
            ("# nobody\n", "the file has 0 users"),
            (f"a:{HASH}\nb\n", "line 2: write USER:HASH"),
            (f":{HASH}\n", "line 1: write USER:HASH"),
            ("a:$apr1$mnc9UvPi$SOXKzrnse87tsoCHMDfyH1\n", "line 1: is no bcrypt hash"),
            ("a:hunter2\n", "line 1: is no bcrypt hash"),
            (f"a:{HASH}\na:{HASH}\n", "line 2: its user is in the file twice"),
            ("\xff", "it is not UTF-8"),
            ("#" * 1_048_577, "more than 1048576 bytes"),
            ("".join(f"u{number}:{HASH}\n" for number in range(1_001)), "the file has 1001 users; it needs 1 to 1000"),
        ],
    )
    def test_a_file_that_cannot_be_used_is_rejected(self, content: str, message: str, tmp_path: Path) -> None:
        path = tmp_path / "htpasswd"
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(ConfigError) as caught:
            read_htpasswd(path)
        assert message in str(caught.value)
        assert f"http.htpasswd_file = {path}" in str(caught.value)
        assert "hunter2" not in str(caught.value)
        assert HASH[-31:] not in str(caught.value)

    def test_every_bad_line_is_reported(self, tmp_path: Path) -> None:
        path = tmp_path / "htpasswd"
        path.write_text("a\nb:x\n")
        with pytest.raises(ConfigError) as caught:
            read_htpasswd(path)
        assert [problem.allowed.partition(":")[0] for problem in caught.value.problems] == ["line 1", "line 2"]

    def test_a_missing_file_is_reported(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
            read_htpasswd(tmp_path / "missing")

    def test_a_file_and_a_user_exclude_each_other(self) -> None:
        (problem,) = problems_of(flags={"http.username": "u", "http.password_hash": HASH, "http.htpasswd_file": "users"})
        assert problem.key == "http.htpasswd_file"
