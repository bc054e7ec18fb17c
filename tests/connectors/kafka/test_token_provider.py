"""Tokens from a class that the settings name: what is said about one that cannot be used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from kafka.errors import KafkaConnectionError

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import connection_options
from streammetrics.connectors.kafka.token_provider import TokenProvider, provider_of, require_botocore
from streammetrics.errors import ConfigError, SourceError
from tests.support.tables import for_each

MODULE = """
class Good:
    def token(self):
        return "t0ken"

    def extensions(self):
        return {"logicalCluster": "lkc-1"}

class Plain:
    def token(self):
        return "plain"

class Away:
    def token(self):
        raise OSError("the endpoint is away")

class Empty:
    def token(self):
        return None

class Demanding:
    def __init__(self, url):
        pass

class Other:
    pass
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "classes_of_tokens.py").write_text(MODULE)
    (tmp_path / "broken_tokens.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "classes_of_tokens", raising=False)


def test_a_class_gives_tokens_and_extensions() -> None:
    provider = TokenProvider("classes_of_tokens:Good")
    assert (provider.token(), provider.extensions()) == ("t0ken", {"logicalCluster": "lkc-1"})
    assert TokenProvider("classes_of_tokens:Plain").extensions() == {}


def test_all_clients_of_a_process_share_one_instance() -> None:
    settings = KafkaSettings(sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider="classes_of_tokens:Good")
    assert connection_options(settings)["sasl_oauth_token_provider"] is provider_of("classes_of_tokens:Good")


def test_an_error_of_the_class_is_that_of_a_lost_connection_for_the_client() -> None:
    provider = TokenProvider("classes_of_tokens:Away")
    with pytest.raises(KafkaConnectionError, match="classes_of_tokens:Away gives no token: OSError: the endpoint is away"):
        provider.token()
    with pytest.raises(SourceError, match=r"check the class in kafka\.sasl_oauth_token_provider"):
        provider.current()


def test_a_token_is_a_text() -> None:
    with pytest.raises(SourceError, match=r"its method token\(\) must return a text"):
        TokenProvider("classes_of_tokens:Empty").current()


@for_each(
    [
        ("no_such_module:X", "cannot be imported (No module named 'no_such_module'); is its folder in PYTHONPATH?"),
        ("classes_of_tokens:Missing", "the module classes_of_tokens has no Missing"),
        ("broken_tokens:X", "cannot be imported: ZeroDivisionError: division by zero"),
        ("classes_of_tokens:Demanding", "cannot be made without arguments: TypeError"),
        ("classes_of_tokens:Other", "must have a method token() that returns the token"),
    ]
)
def test_a_class_that_cannot_be_used_is_a_wrong_setting(case: tuple[str, str]) -> None:
    name, reason = case
    with pytest.raises(ConfigError) as caught:
        TokenProvider(name)
    (problem,) = caught.value.problems
    assert (problem.key, problem.value) == ("kafka.sasl_oauth_token_provider", name)
    assert problem.allowed.startswith(reason)


def test_the_package_for_aws_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    require_botocore()
    monkeypatch.setattr("streammetrics.connectors.kafka.token_provider.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'streammetrics\[aws\]'"):
        require_botocore()
