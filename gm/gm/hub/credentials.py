"""Who GM is, and which node a caller is.

Owns TLS of the stream and what proves a node's name. That is a client certificate of `client_ca`
whose common name is `system:node:<node>` (as kubelet's) or `<node>`. Or it is a bearer token of
LC's service account, made for the audience `edge-sidecars-gm`, that the API server binds to a node
(KEP-4193, on by default since Kubernetes 1.30). GM asks by a TokenReview. Guarantees: renewed
certificate files serve the next handshake; no token is kept or logged; a token of another account,
of another audience or that is not bound to a node proves none.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

from edge_sidecars.kubeapi import ApiClient, ApiError, Unreachable
from edge_sidecars.runtime.cli.values import describe_failure
from edge_sidecars.runtime.formats.bearer import bearer_token
from gm.core.tree import flag, items, mapping, text
from gm.hub.ports import ReviewUnavailable

# https://kubernetes.io/docs/reference/access-authn-authz/node/
_NODE_PREFIX = "system:node:"


class UnusableCertificate(Exception):
    """A file that cannot be read at the start."""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """PEM files; with `client_ca` every LC needs a certificate."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


def server_credentials(tls: ServerTls) -> grpc.ServerCredentials:
    """Raises `UnusableCertificate`."""

    try:
        configuration = _configuration(tls)
    except OSError as error:
        raise UnusableCertificate(
            f"{describe_failure(error)}; name a PEM file that GM may read"
        ) from error
    try:
        # gRPC says of a pair that it cannot use that it cannot listen. No password is asked for.
        pair = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair.load_cert_chain(tls.certificate, tls.key, password="")
    except OSError as error:
        raise UnusableCertificate(
            f"no pair with --tls-key {tls.key}: {describe_failure(error)}; name a certificate and "
            "its key, both in PEM"
        ) from error

    def renewed() -> grpc.ServerCertificateConfiguration:
        nonlocal configuration
        # Half replaced: what was read before serves.
        with suppress(OSError):
            configuration = _configuration(tls)
        return configuration

    is_mutual = tls.client_ca is not None
    return grpc.dynamic_ssl_server_credentials(configuration, renewed, is_mutual)


def _configuration(tls: ServerTls) -> grpc.ServerCertificateConfiguration:
    authority = None if tls.client_ca is None else tls.client_ca.read_bytes()
    pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
    return grpc.ssl_server_certificate_configuration([pair], authority)


def node_of_certificate(auth_context: Mapping[str, Sequence[bytes]]) -> str:
    """ "" where the certificate names no node."""
    names = auth_context.get("x509_common_name", ())
    if len(names) != 1:
        return ""
    return names[0].decode(errors="replace").removeprefix(_NODE_PREFIX)


def token_of(metadata: Sequence[tuple[str, str | bytes]]) -> str:
    """ "" where the call brings none."""
    for key, value in metadata:
        if key == "authorization" and isinstance(value, str):
            return bearer_token(value) or ""
    return ""


PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
NODE_CLAIM = "authentication.kubernetes.io/node-name"
# A token for the API server, which any pod has, is for another audience.
AUDIENCE = "edge-sidecars-gm"


class TokenReviews:
    """The port of the hub. `account`: of LCs, as `namespace:name`."""

    def __init__(self, api: ApiClient, *, timeout: float, account: str) -> None:
        self._api = api
        self._timeout = timeout
        self._username = f"system:serviceaccount:{account}"

    async def node_of(self, token: str) -> str | None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [AUDIENCE]},
        }
        try:
            review = await self._api.request("POST", PATH, timeout=self._timeout, body=body)
        except (ApiError, Unreachable) as error:
            raise ReviewUnavailable(str(error)) from error
        if not flag(review, "status", "authenticated"):
            return None
        # An authenticator that knows no audiences names none: its word is not about ours.
        if AUDIENCE not in items(review, "status", "audiences"):
            return None
        if text(review, "status", "user", "username") != self._username:
            return None
        found = items(mapping(review, "status", "user", "extra"), NODE_CLAIM)
        return found[0] if len(found) == 1 and isinstance(found[0], str) else None
