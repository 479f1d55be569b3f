"""Callers of a node's own listener: the node itself by its client certificate, others by tokens.

Guarantees: Only the certificate of the node for which the relay acts upstream gets the relay's
rights, and only over TLS that verified it. Another node's is refused with both names. A caller that
shows none is judged by its bearer token, as with `--access caller`. While upstream is out of reach
the node's kubelet is known by its process as well, where certificates are asked for.
"""

import asyncio
import hashlib
import math
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.kubeapi.client_certificate import ClientCertificate
from edge_sidecars.kubeapi.credentials import verify_clients
from edge_sidecars.runtime.cli.values import BadInput, describe_failure
from edge_sidecars.runtime.web.aiohttp_web import BaseRequest
from relay_sidecar.access.admission import Access, Caller
from relay_sidecar.access.kubelet_process import KubeletProcess, is_for_a_pod
from relay_sidecar.core.access.node_identity import (
    NODES,
    CallerCertificate,
    NodeCertificates,
)
from relay_sidecar.core.access.token_families import family_of
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob

# Seconds; one `stat` of each file.
ACCEPTED_INTERVAL: Final = 1.0
# The journal's space of what upstream took.
SPACE: Final = "node-certificates"
# Of names of nodes: k8s.io/component-helpers, node identity.
PREFIX: Final = "system:node:"
# Pods of which it is known that they read here; a node has some hundred.
MAX_READERS: Final = 1024
_ACCEPTED: Final = b"accepted"
_FINGERPRINT = hashlib.sha256().digest_size
_OWN: Final = Caller(is_node=True)


class NodeAccess:
    """`callers`: judges those who bring a token. `is_up`: whether upstream can be asked. `kubelet`:
    None where only its certificate says who it is."""

    def __init__(
        self,
        callers: Access,
        credentials: ClientCertificate,
        certificates: NodeCertificates,
        journal: Journal,
        *,
        kubelet: KubeletProcess | None,
        is_up: Callable[[], bool],
    ) -> None:
        self._callers = callers
        self._kubelet = kubelet
        self._credentials = credentials
        self._certificates = certificates
        self._journal = journal
        self._is_up = is_up
        self._seen: WeakKeyDictionary[object, CallerCertificate] = WeakKeyDictionary()
        # Of connections without a certificate.
        self._kubelets: WeakKeyDictionary[object, bool] = WeakKeyDictionary()
        # Uids of pods, the latest last.
        self._readers: OrderedDict[str, None] = OrderedDict()
        journal.rewrite_from(self._state)

    async def admit(self, request: BaseRequest) -> Caller:
        certificate = self._certificate_of(request)
        if certificate is None:
            return _OWN if await self._is_kubelet(request) else await self._callers.admit(request)
        refusal = self._certificates.refusal(certificate, now=time.time(), is_online=self._is_up())
        if refusal is not None:
            raise Refused(refusal)
        return _OWN

    async def may(
        self, caller: Caller, info: RequestInfo, *, label_selector: str, field_selector: str
    ) -> float:
        if caller.is_node:
            return math.inf
        until = await self._callers.may(
            caller, info, label_selector=label_selector, field_selector=field_selector
        )
        self._note(caller.token)
        return until

    def has_read(self, token: str) -> bool:
        """Whether the pod of the token has read something here, with this one or another."""
        family = family_of(token)
        return family is not None and family.pod_uid in self._readers

    def _note(self, token: str) -> None:
        family = family_of(token)
        if family is not None:
            self._readers[family.pod_uid] = None
            self._readers.move_to_end(family.pod_uid)
            if len(self._readers) > MAX_READERS:
                self._readers.popitem(last=False)

    def is_of_node(self, caller: Caller) -> bool:
        return caller.is_node or self._callers.is_of_node(caller)

    def link(self, is_up: bool) -> None:
        self._callers.link(is_up)

    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]:
        return {} if caller.is_node else self._callers.headers_for_upstream(caller)

    async def run(self, *, is_accepted: Callable[[], bool]) -> None:
        """Remembers, until it is cancelled, which certificate upstream takes: the relay's own,
        which kubelet shows as well."""
        while True:
            if is_accepted() and self._certificates.accept(self._credentials.fingerprint):
                await self._journal.commit(*self._state())
            await asyncio.sleep(ACCEPTED_INTERVAL)

    def _state(self) -> list[Blob]:
        return [Blob(SPACE, _ACCEPTED, b"".join(self._certificates.accepted))]

    async def _is_kubelet(self, request: BaseRequest) -> bool:
        transport, connection = request.transport, _connection_of(request)
        if self._kubelet is None or self._is_up() or transport is None or connection is None:
            return False
        # The listener for pods asks for none.
        if connection.context.verify_mode is ssl.CERT_NONE or hdrs.AUTHORIZATION in request.headers:
            return False
        if is_for_a_pod(request.headers):
            # Nor is anything else on its connection.
            self._kubelets[connection] = False
        if self._kubelets.get(connection) is None:
            peer, own = (transport.get_extra_info(name) for name in ("peername", "sockname"))
            self._kubelets[connection] = await self._kubelet.is_at(peer, own)
        return self._kubelets[connection]

    def _certificate_of(self, request: BaseRequest) -> CallerCertificate | None:
        connection = _connection_of(request)
        if connection is None:
            return None
        if connection not in self._seen:
            certificate = _verified(connection)
            if certificate is None:
                return None
            self._seen[connection] = certificate
        return self._seen[connection]


def accepted_before(saved: Mapping[bytes, bytes]) -> list[bytes]:
    """What an earlier life left in the journal's space `SPACE`."""
    kept = saved.get(_ACCEPTED, b"")
    return [kept[at : at + _FINGERPRINT] for at in range(0, len(kept), _FINGERPRINT)]


def own_name(credentials: ClientCertificate, authorities: Path) -> str:
    """The common name of the relay's own certificate. Raises `BadInput` where it is no node's, or
    `authorities` have not signed it."""
    named = f"--client-certificate {credentials.certificate}"
    try:
        certificate = _shown_by(credentials, authorities)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{named} is not of --client-ca-file {authorities}: {describe_failure(error)}; name "
            "the authority that signed it"
        ) from error
    if certificate is not None and certificate.is_ambiguous:
        raise BadInput(
            f"{named} has several common names, {certificate.common_name}: name kubelet's "
            "certificate, which has one"
        )
    if certificate is None or NODES not in certificate.organizations:
        whose = "nobody" if certificate is None else certificate.common_name
        raise BadInput(f"{named} is of {whose}, no node: name kubelet's certificate")
    return certificate.common_name


def _shown_by(credentials: ClientCertificate, authorities: Path) -> CallerCertificate | None:
    """What a listener would see of it: a handshake in memory, since ssl decodes no other
    certificate than a peer's."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(credentials.certificate, credentials.key, password="")
    verify_clients(server, authorities.read_bytes())
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    client.load_cert_chain(credentials.certificate, credentials.key, password="")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = {
        client.wrap_bio(to_client, to_server, server_side=False),
        accepting := server.wrap_bio(to_server, to_client, server_side=True),
    }
    while ends:
        ends -= {end for end in ends if _has_shaken_hands(end)}
    return _verified(accepting)


def _has_shaken_hands(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _connection_of(request: BaseRequest) -> Any:
    """An `ssl.SSLObject`; None where there is no TLS, or no client any more."""
    transport = request.transport
    return None if transport is None else transport.get_extra_info("ssl_object")


def _verified(connection: Any) -> CallerCertificate | None:
    """`connection`: an `ssl.SSLObject`; None where the client has shown nothing."""
    encoded = connection.getpeercert(binary_form=True)
    decoded = connection.getpeercert()
    if not encoded or not decoded:
        return None
    return CallerCertificate.of(decoded, hashlib.sha256(encoded).digest())
