"""Credentials from an exec plugin (client.authentication.k8s.io/v1 and v1beta1).

Guarantees: one run at a time, however many ask; a run that takes longer than `TIMEOUT` is killed
with its children; no run is awaited for longer than the request that needs it, and goes on for the
next one. A credential is used until it expires or is refused. Nothing of it is stored.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from edge_sidecars.kubeapi.credentials import checked_token
from edge_sidecars.kubeapi.errors import Unreachable
from edge_sidecars.runtime.formats import rfc3339

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
# Seconds; plugins of clouds take one to five, those that look for a browser never end.
TIMEOUT = 30.0
# Seconds between the end of a run that gave nothing, or was refused, and the next one.
RETRY = 5.0
# Seconds before the end of a credential at which the next one is fetched.
LEEWAY = 10.0
# Bytes of an answer; a chain of certificates takes some 10 KB.
LONGEST = 1024 * 1024
# Letters of a plugin's standard error that a message shows.
SHOWN = 200


@dataclass(frozen=True)
class ExecSpec:
    """The fields of a user's `exec`. Raises ValueError for what cannot work here."""

    owner: str  # for messages
    command: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    api_version: str
    interactive_mode: str
    install_hint: str
    cluster: Mapping[str, object] | None  # None unless the plugin wants it

    def __post_init__(self) -> None:
        if self.api_version not in VERSIONS:
            raise ValueError(
                f"exec of {self.owner}: apiVersion {self.api_version!r} is not supported: it must "
                f"be {' or '.join(VERSIONS)}"
            )
        if self.interactive_mode == "Always":
            raise ValueError(
                f"exec of {self.owner}: interactiveMode Always needs a terminal, and there is none"
            )


@dataclass(frozen=True)
class ExecCredential:
    """What a plugin gave: a token, a pair (PEM), or both. `expires_at` in seconds since 1970."""

    token: str | None
    pair: tuple[bytes, bytes] | None
    expires_at: float | None


class ExecPlugin:
    def __init__(self, spec: ExecSpec) -> None:
        self.spec = spec
        self.newest: ExecCredential | None = None
        self._is_refused = False
        self._run: asyncio.Task[None] | None = None
        self._ended_at = -RETRY
        self._failure = ""

    async def credential(self) -> ExecCredential:
        """Raises `Unreachable` where the plugin gives none."""
        newest = self.newest
        if newest is not None and not self._is_refused and not _is_due(newest, LEEWAY):
            return newest
        if self._run is None and time.monotonic() - self._ended_at >= RETRY:
            self._run = asyncio.create_task(self._renew())
        if self._run is not None:
            await asyncio.wait({self._run})
        newest = self.newest
        if newest is None or _is_due(newest, 0.0):
            raise Unreachable(f"no credentials: {self._failure}")
        return newest

    def refused(self) -> None:
        """The server answered 401: the next request asks the plugin again."""
        self._is_refused = True

    async def _renew(self) -> None:
        try:
            self.newest = _parsed(await _output(self.spec), self.spec)
            self._is_refused = False
        except (OSError, ValueError) as error:
            self._failure = f"the exec plugin {self.spec.command} of {self.spec.owner}: {error}"
        finally:
            self._ended_at, self._run = time.monotonic(), None


def _is_due(credential: ExecCredential, leeway: float) -> bool:
    """By the wall clock: that is what the issuer means."""
    return credential.expires_at is not None and time.time() >= credential.expires_at - leeway


async def _output(spec: ExecSpec) -> bytes:
    """Raises OSError or ValueError with a message that shows nothing of the output."""
    try:
        process = await asyncio.create_subprocess_exec(
            spec.command,
            *spec.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # A plugin finds its own configuration as it would with kubectl.
            env={**os.environ, **spec.environ, "KUBERNETES_EXEC_INFO": _info(spec)},
            start_new_session=True,
        )
    except FileNotFoundError as error:
        hint = f"; {' '.join(spec.install_hint.split())}" if spec.install_hint else ""
        raise ValueError(f"it is not installed{hint}") from error
    except OSError as error:
        raise ValueError(str(error.strerror)) from error
    try:
        async with asyncio.timeout(TIMEOUT):
            assert process.stdout is not None
            assert process.stderr is not None
            output, errors = await asyncio.gather(
                _bounded(process.stdout), _bounded(process.stderr)
            )
            status = await process.wait()
    except TimeoutError as error:
        raise ValueError(f"no answer within {TIMEOUT:g}s") from error
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if status != 0:
        words = " ".join(errors.decode("utf-8", "replace").split())
        raise ValueError(f"exit status {status}: {words[-SHOWN:]}")
    return output


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while piece := await stream.read(64 * 1024):
        found += piece
        if len(found) > LONGEST:
            raise ValueError(f"it says more than {LONGEST} bytes")
    return bytes(found)


def _info(spec: ExecSpec) -> str:
    """The ExecCredential that a plugin finds in KUBERNETES_EXEC_INFO."""
    fields: dict[str, object] = {"interactive": False}
    if spec.cluster is not None:
        fields["cluster"] = spec.cluster
    credential = {"apiVersion": spec.api_version, "kind": "ExecCredential", "spec": fields}
    return json.dumps(credential, default=str)


def _parsed(output: bytes, spec: ExecSpec) -> ExecCredential:
    try:
        credential = json.loads(output)
    except (ValueError, RecursionError):
        raise ValueError("what it says is not JSON") from None
    if not isinstance(credential, dict) or credential.get("kind") != "ExecCredential":
        raise ValueError("what it says is no ExecCredential")
    version = credential.get("apiVersion")
    if version != spec.api_version:
        raise ValueError(f"it speaks {version!r:.80}, the kubeconfig names {spec.api_version}")
    status = credential.get("status")
    if not isinstance(status, dict):
        raise ValueError("its ExecCredential has no status")
    token = _text(status, "token")
    certificate, key = _text(status, "clientCertificateData"), _text(status, "clientKeyData")
    if (certificate is None) != (key is None):
        raise ValueError("clientCertificateData and clientKeyData need each other")
    if token is None and certificate is None:
        raise ValueError("it gives neither a token nor a client certificate")
    return ExecCredential(
        token=token and checked_token(token, refusal="what it gives is not a token"),
        pair=None if certificate is None or key is None else (certificate.encode(), key.encode()),
        expires_at=_moment(_text(status, "expirationTimestamp")),
    )


def _text(status: Mapping[str, object], name: str) -> str | None:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is not text")
    return value or None


def _moment(text: str | None) -> float | None:
    """RFC 3339."""
    if text is None:
        return None
    moment = rfc3339.parse(text)
    if moment is None:
        raise ValueError("expirationTimestamp is no time of RFC 3339")
    return moment.timestamp()
