"""A token endpoint, and a broker that validates its tokens: signature, issuer, audience and expiry."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import HOST, free_port

CLIENT_ID, CLIENT_SECRET = "metrics", "t0ken/secret:+"
ISSUER, AUDIENCE = "https://sso.test", "kafka"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenSigner:
    """Signs JSON Web Tokens (RS256) with a key of its own."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)

    def token(self, seconds: float = 600, **claims: object) -> str:
        now = int(time.time())
        claims = {"sub": CLIENT_ID, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + int(seconds), **claims}
        parts = [_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT", "kid": "test"}, claims)]
        signature = self._key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join([*parts, _encoded(signature)])

    def key_set(self) -> str:
        """Return the public key as a JSON Web Key Set."""
        numbers = self._key.public_key().public_numbers()
        n, e = (_encoded(number.to_bytes((number.bit_length() + 7) // 8)) for number in (numbers.n, numbers.e))
        return json.dumps({"keys": [{"kty": "RSA", "kid": "test", "use": "sig", "alg": "RS256", "n": n, "e": e}]})


class TokenEndpoint:
    """Gives tokens for client credentials (RFC 6749). `answer` replaces its answers: a status and a body."""

    def __init__(self, signer: TokenSigner, port: int, tls: ssl.SSLContext | None) -> None:
        self.signer = signer
        self.seconds = 600.0
        self.issued: list[dict[str, str]] = []
        """The forms of the requests that got a token."""
        self.answer: tuple[int, bytes] | None = None
        self._server = ThreadingHTTPServer((HOST, port), self._handler())
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if tls is None else 'https'}://{HOST}:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, answer = endpoint.answer or endpoint.reply(self.headers.get("Authorization", ""), body)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", answer.decode())
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def reply(self, authorization: str, body: str) -> tuple[int, bytes]:
        given = base64.b64decode(authorization.removeprefix("Basic ")).decode().split(":")
        form = dict(urllib.parse.parse_qsl(body))
        if [urllib.parse.unquote_plus(part) for part in given] != [CLIENT_ID, CLIENT_SECRET]:
            return 401, b'{"error":"invalid_client"}'
        if form.get("grant_type") != "client_credentials":
            return 400, b'{"error":"unsupported_grant_type"}'
        self.issued.append(form)
        token = {"access_token": self.signer.token(self.seconds), "token_type": "Bearer", "expires_in": self.seconds}
        return 200, json.dumps(token).encode()


@contextmanager
def token_endpoint(signer: TokenSigner, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[TokenEndpoint]:
    endpoint = TokenEndpoint(signer, port, tls)
    try:
        yield endpoint
    finally:
        endpoint.close()


class OAuthKafkaBroker(KafkaBroker):
    """One broker with a second listener for OAUTHBEARER. The test itself uses the plaintext listener.

    Only with the validator class below the broker checks signatures, issuer and audience. Under the prefix of a listener it is ignored.
    """

    def __init__(self, signer: TokenSigner, properties: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.keys = self.directory / "keys.json"
        self.keys.write_text(signer.key_set(), encoding="utf-8")
        self.login_port = free_port()
        listeners, controller = f"PLAINTEXT://{HOST}:{self.port},SASL_PLAINTEXT://{HOST}:{self.login_port}", self.properties["listeners"]
        prefix = "listener.name.sasl_plaintext.oauthbearer.sasl"
        self.properties |= {
            "listeners": f"{listeners},{controller.rpartition(',')[2]}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            f"{prefix}.server.callback.handler.class": ("org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"),
            "sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.jwt.validator.class": "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
            **(properties or {}),
        }

    @property
    def login_bootstrap(self) -> str:
        """The bootstrap_servers of the listener that needs a token."""
        return f"{HOST}:{self.login_port}"

    def _java_command(self, main: str, *arguments: str | Path) -> list[str | Path]:
        java, *rest = super()._java_command(main, *arguments)
        return [java, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.keys.as_uri()}", *rest]
