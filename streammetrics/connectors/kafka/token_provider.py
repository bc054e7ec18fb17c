"""Tokens for a login by SASL OAUTHBEARER, from a class that the settings name. One instance serves all clients of a process.

The client asks for a token for each connection and before the session of a connection ends. The class keeps a token and renews it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from streammetrics.errors import ConfigError, Problem, SourceError

KEY: Final = "kafka.sasl_oauth_token_provider"


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]  # untyped in the client
    """Hands the client the tokens of a class. `name` is module:Class. Raises ConfigError if there is no such class."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self._source = name, _instance_of(name)

    def token(self) -> str:
        """Return a token for a connection of the client.

        Without one, it raises the error of a lost connection, after which the client tries again. Any other error would end its threads.
        """
        try:
            return self.current()
        except SourceError as error:
            raise KafkaConnectionError(str(error)) from None

    def current(self) -> str:
        """Return a token. Raises SourceError if the class gives none."""
        try:
            token = self._source.token()
        except Exception as error:  # the class is not ours, so it may raise anything
            raise SourceError(f"{self._name} gives no token: {type(error).__name__}: {error}", f"check the class in {KEY}") from error
        if not isinstance(token, str) or not token or not token.isprintable():
            raise SourceError(f"{self._name} gives no token: its method token() must return a text", f"correct the class in {KEY}")
        return token

    def extensions(self) -> Mapping[str, str]:
        """Return what the class adds to a login; nothing without a method of this name."""
        added: Mapping[str, str] = self._source.extensions() if hasattr(self._source, "extensions") else {}
        return added


def _instance_of(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        provider = vars(import_module(module))[attribute]
    except ImportError as error:
        raise ConfigError([Problem(KEY, name, f"cannot be imported ({error}); is its folder in PYTHONPATH?")]) from None
    except KeyError:
        raise ConfigError([Problem(KEY, name, f"the module {module} has no {attribute}")]) from None
    except Exception as error:
        raise ConfigError([Problem(KEY, name, f"cannot be imported: {type(error).__name__}: {error}")]) from error
    try:
        instance = provider()
    except Exception as error:
        raise ConfigError([Problem(KEY, name, f"cannot be made without arguments: {type(error).__name__}: {error}")]) from error
    if not callable(getattr(instance, "token", None)):
        raise ConfigError([Problem(KEY, name, "must have a method token() that returns the token")])
    return instance


@functools.cache
def provider_of(name: str) -> TokenProvider:
    """Return the provider of a class, the same for all clients of the process. Raises ConfigError if it cannot be used."""
    return TokenProvider(name)


def require_botocore() -> None:
    """Raise ConfigError if botocore is not installed, by which the client signs the logins of AWS_MSK_IAM."""
    if find_spec("botocore") is None:
        advice = "needs the package botocore: pip install 'streammetrics[aws]'"
        raise ConfigError([Problem("kafka.sasl_mechanism", "AWS_MSK_IAM", advice)])
