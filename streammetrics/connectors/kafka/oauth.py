"""Tokens for a login by SASL OAUTHBEARER: from a token endpoint, a file, or AWS IAM. One provider serves all clients of a process.

The client asks for a token for each connection and before the session of a connection ends. A token is kept for most of its life, and
renewed before it expires.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import threading
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final, NamedTuple

import structlog
from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from streammetrics.connectors.http_client import HttpAnswer, HttpClient, HttpError, within
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import ConfigError, Problem, SourceError

log = structlog.get_logger("streammetrics.kafka")

TIMEOUT_SECONDS: Final = 3.0
"""The client waits for a token on the thread of its connections. A longer wait would cost heartbeats."""
AWS_SECONDS: Final = 10.0
"""The same for AWS, whose signer may ask several services for the credentials."""
RENEW_AFTER: Final = 0.8
"""The part of a token's life after which it is renewed, so that a short outage of the endpoint does no harm."""
LIFE_SECONDS: Final = 60.0
"""How long a token is kept that does not say when it expires."""
SHOWN_BYTES: Final = 500
"""How much of a refusal is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthLogin:
    """Where tokens come from: `token_url`, `token_file` or `aws_region`. `repr` hides the secret."""

    token_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    cafile: str | None = None
    token_file: str | None = None
    aws_region: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()


class Token(NamedTuple):
    """A token, when it is to be renewed and when it expires (epoch seconds)."""

    text: str
    renew_at: float
    expires_at: float


class OAuthTokens(AbstractTokenProvider):  # type: ignore[misc]  # untyped in the client
    """Hands out tokens of one login. Usable from several threads."""

    def __init__(self, login: OAuthLogin) -> None:
        super().__init__()
        self._login = login
        self._lock = threading.Lock()
        self._kept: Token | None = None

    def token(self) -> str:
        """Return a token for a connection of the client.

        Without one, it raises the error of a lost connection, after which the client tries again. Any other error would end its threads.
        """
        try:
            return self.current()
        except (SourceError, ConfigError) as error:
            raise KafkaConnectionError(str(error)) from None

    def current(self) -> str:
        """Return a token that is not expired. Raises SourceError if none can be had now, and ConfigError if the settings are wrong."""
        with self._lock:
            now, kept = time.time(), self._kept
            if kept is not None and now < kept.renew_at:
                return kept.text
            try:
                self._kept = self._fetched(now)
            except (SourceError, ConfigError) as error:
                if kept is None or now >= kept.expires_at:
                    raise
                log.warning("the token could not be renewed yet", reason=str(error), seconds_left=round(kept.expires_at - now))
                return kept.text
            return self._kept.text

    def extensions(self) -> Mapping[str, str]:
        return dict(self._login.extensions)

    def _fetched(self, now: float) -> Token:
        login = self._login
        if login.token_file is not None:
            return _of_file(login.token_file, now)
        if login.aws_region is not None:
            return _of_aws(login.aws_region, now)
        return _of_endpoint(login, now)


@functools.cache
def tokens_of(login: OAuthLogin) -> OAuthTokens:
    """Return the provider of a login, the same for all clients of the process."""
    return OAuthTokens(login)


def _kept_until(text: str, now: float, expires_at: float | None) -> Token:
    if expires_at is None:
        expires_at = expiry_of(text)
    if expires_at is None:
        return Token(text, now + LIFE_SECONDS, now + LIFE_SECONDS)
    return Token(text, now + RENEW_AFTER * (expires_at - now), expires_at)


def expiry_of(token: str) -> float | None:
    """Return when a token expires (epoch seconds), if it is a JSON Web Token that says so.

    >>> expiry_of("e30.eyJleHAiOjE3NzIzNjY0MDB9.sig"), expiry_of("opaque")
    (1772366400.0, None)
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error):
        return None


def _of_file(path: str, now: float) -> Token:
    """Read a file that another program keeps up to date, such as a projected token of Kubernetes. It is read for each connection."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"the token file {path} cannot be read: {error}", "correct kafka.oauth_token_file or the file's rights"
        ) from error
    if not text or len(text.split()) != 1:
        raise SourceError(f"the token file {path} must hold one token and nothing else", "correct kafka.oauth_token_file")
    expires_at = expiry_of(text)
    if expires_at is not None and expires_at <= now:
        raise SourceError(f"the token in {path} expired {now - expires_at:.0f} s ago", "start what renews the file")
    return Token(text, now, now)


def _of_endpoint(login: OAuthLogin, now: float) -> Token:
    """Ask the token endpoint by client credentials (RFC 6749, section 4.4)."""
    assert login.token_url is not None
    form = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
    pair = ":".join(urllib.parse.quote_plus(part or "") for part in (login.client_id, login.client_secret))
    headers = {
        "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    files = CertificateFiles(section="kafka", prefix="oauth_", cafile=login.cafile)
    try:
        answer = HttpClient(timeout_seconds=TIMEOUT_SECONDS, certificates=files).request(
            "POST", login.token_url, headers, urllib.parse.urlencode(form).encode()
        )
    except HttpError as error:
        raise SourceError(f"no token can be had from {error}", "check kafka.oauth_token_url and kafka.oauth_cafile") from None
    return _granted(answer, login.token_url, now)


def _granted(answer: HttpAnswer, place: str, now: float) -> Token:
    if answer.status != 200:
        reason = answer.body[:SHOWN_BYTES].decode(errors="replace").replace("\n", " ")
        raise SourceError(
            f"{place} refused a token with status {answer.status}{f': {reason}' if reason.isprintable() and reason else ''}",
            "check kafka.oauth_client_id, oauth_client_secret and oauth_scope",
        )
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise SourceError(f"{place} answered something else than JSON", "check kafka.oauth_token_url") from None
    fields = found if isinstance(found, dict) else {}
    text, seconds = fields.get("access_token"), fields.get("expires_in")
    if not isinstance(text, str) or not text or not text.isprintable():
        raise SourceError(f"{place} answered without an access_token", "check kafka.oauth_token_url")
    known = isinstance(seconds, int | float) and seconds > 0
    return _kept_until(text, now, now + float(seconds) if known and seconds is not None else None)


def _of_aws(region: str, now: float) -> Token:
    """Sign a token of AWS MSK with the credentials of the environment, by the signer of AWS."""
    try:
        signer = import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ImportError:
        advice = "needs the package aws-msk-iam-sasl-signer-python: pip install 'streammetrics[aws]'"
        raise ConfigError([Problem("kafka.oauth_aws_region", region, advice)]) from None
    try:  # the signer may ask a service of AWS for the credentials
        text, expires_ms = within(AWS_SECONDS, lambda: signer.generate_auth_token(region))
    except TimeoutError:
        raise SourceError(
            f"AWS gives no token for MSK in {region} within {AWS_SECONDS:g} s", "see whether this machine reaches AWS"
        ) from None
    except Exception as error:  # the signer raises many kinds: AttributeError without credentials, and those of botocore
        raise SourceError(
            f"AWS gives no token for MSK in {region}: {error}", "give the process credentials of AWS (environment, profile or role)"
        ) from error
    return _kept_until(text, now, expires_ms / 1_000)
