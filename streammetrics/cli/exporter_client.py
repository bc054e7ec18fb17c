"""Asks an exporter: the gate of an experiment, or the whole report, with a login if it needs one."""

from __future__ import annotations

import base64
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from streammetrics.config.worker import ClientSettings
from streammetrics.connectors.http_client import HttpAnswer, HttpClient
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import StreammetricsError
from streammetrics.events.json_text import JsonError, decode_json
from streammetrics.reports.verdict_lines import GateAnswer, UnknownExperimentError
from streammetrics.words.names import fit
from streammetrics.words.times import moment_text, span_text

_SHOWN_CHARS = 200
SILENT_SECONDS: Final = 50.0
"""Without a commit for so long, workers are gone or no event comes. Between events they commit the time that passes."""


class _Pulse(msgspec.Struct):
    """The part of /api/pulse that is read."""

    commit_age_seconds: float | None = None
    outages: tuple[str, ...] = ()


class ExporterClient:
    """The exporter at `client.url`, which must be set. Its methods raise HttpError if it cannot be reached."""

    def __init__(self, settings: ClientSettings) -> None:
        self.url = settings.url.get_secret_value().rstrip("/") if settings.url else ""
        files = CertificateFiles(section="client", cafile=settings.ssl_cafile)
        self._http = HttpClient(timeout_seconds=settings.timeout_ms / 1_000, certificates=files)
        self._headers = {"accept": "application/json"}
        if settings.username and settings.password:
            login = f"{settings.username}:{settings.password.get_secret_value()}".encode()
            self._headers["authorization"] = f"Basic {base64.b64encode(login).decode()}"

    def gate(self, experiment: str, variant: str | None, scope: str, since_ms: int | None = None) -> GateAnswer:
        """Return the answer of the gate. Raises UnknownExperimentError, and StreammetricsError for an answer that is none."""
        named = {"variant": variant, "since": None if since_ms is None else moment_text(since_ms)}
        query = urlencode({"scope": scope, **{name: value for name, value in named.items() if value is not None}})
        answer = self._get(f"/api/gate/{quote(experiment, safe='')}?{query}")
        if answer.status == 404 and (error := _error_of(answer)) is not None:
            raise UnknownExperimentError(error)
        self._require_content(answer)
        try:
            return decode_json(answer.body, GateAnswer)
        except JsonError as error:
            raise StreammetricsError(f"{self.url} did not answer as a gate ({error}); is it an exporter of this version?") from error

    def report(self) -> Any:
        """Return the report as plain JSON values."""
        answer = self._get("/api/report")
        self._require_content(answer)
        try:
            return decode_json(answer.body, object)
        except JsonError as error:
            raise StreammetricsError(f"{self.url}/api/report is not JSON ({error}); is it an exporter?") from error

    def age_line(self, up_to_ms: int | None, now_ms: int) -> str:
        """Say how old the numbers of the exporter are, in event time, and since when no worker has committed. Empty if it does not know."""
        answer = self._get("/api/pulse")
        try:
            pulse = decode_json(answer.body, _Pulse) if answer.status == 200 else _Pulse()
        except JsonError:
            pulse = _Pulse()
        parts = [] if up_to_ms is None else [f"the numbers end {span_text(max(0, now_ms - up_to_ms))} ago"]
        if pulse.commit_age_seconds is not None:
            silent = pulse.commit_age_seconds >= SILENT_SECONDS
            ago = span_text(int(1_000 * pulse.commit_age_seconds))
            why = "; ".join(pulse.outages) or "no worker runs, or nothing is sent"
            nothing = f"no worker has committed anything for {ago}: {why}"
            parts.append(nothing if silent or pulse.outages else f"the last commit was {ago} ago")
        return f"{self.url}: {'; '.join(parts)}" if parts else ""

    def _get(self, path: str) -> HttpAnswer:
        return self._http.request("GET", self.url + path, self._headers)

    def _require_content(self, answer: HttpAnswer) -> None:
        if answer.status == 200:
            return
        if answer.status == 401:
            raise StreammetricsError(f"{self.url} refused the login; check client.username and client.password")
        reason = _error_of(answer) or answer.body[:_SHOWN_CHARS].decode(errors="replace").strip()
        if answer.status == 404:
            reason = "it has no such path; is it an exporter of this version?"
        raise StreammetricsError(f"{self.url} answered {answer.status}: {fit(' '.join(reason.split()))}")


def _error_of(answer: HttpAnswer) -> str | None:
    """Return the message of an error of the exporter; None if the answer is from something else."""
    try:
        error = decode_json(answer.body, dict[str, str]).get("error")
    except JsonError:
        return None
    return error if error is None else fit(error)
