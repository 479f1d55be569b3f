"""Requests as kubelet sends them: by its kubeconfig, and so by way of the relay.

Guarantee: what the relay tells while the cloud is out of reach is never taken for what the API
server says now: `is_live`.
"""

from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from edge_sidecars.kubeapi import ApiTransport, Request, UnusableCredentials
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from edge_sidecars.runtime.cli.proxies import ProxyVariables
from edge_sidecars.runtime.cli.values import BadInput

# Seconds.
TIMEOUT: Final = 20.0
MAX_ANSWER: Final = 64 * 1024 * 1024
# Of this node; its name follows. As kubelet lists them.
PODS: Final = "/api/v1/pods?fieldSelector=spec.nodeName%3D"
# Of user names of nodes: k8s.io/component-helpers, node identity.
PREFIX: Final = "system:node:"
_REVIEWS: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True)
class NodeAnswer:
    """`is_live`: the API server's, of now. `date`: the clock of who answered, in Unix time; None
    where it did not say."""

    status: int
    body: bytes
    is_live: bool
    date: float | None

    @property
    def is_success(self) -> bool:
        return self.status < 300


class KubeletApi:
    """`command`: who asks, for the API server's log. Raises `BadInput` naming the file."""

    def __init__(self, kubeconfig: Path, *, command: str, proxies: ProxyVariables) -> None:
        try:
            self._credentials = Kubeconfig(kubeconfig, proxies=proxies)
        except UnusableCredentials as error:
            raise BadInput(str(error)) from error
        self._command = command

    async def __aenter__(self) -> Self:
        agent = f"relay-sidecar node {self._command}"
        self._transport = ApiTransport(self._credentials, user_agent=agent)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._transport.close()

    async def ask(self, method: str, target: str, content: object = None) -> NodeAnswer:
        """Raises `Unreachable`."""
        body = None if content is None else msgspec.json.encode(content)
        headers = (("Accept", "application/json"), ("Content-Type", "application/json"))
        request = Request(method, target, header_timeout=TIMEOUT, headers=headers, body=body)
        async with self._transport.send(request) as answer:
            found = await answer.read(limit=MAX_ANSWER, idle_timeout=TIMEOUT)
            is_live = "Age" not in answer.headers
            return NodeAnswer(
                answer.status, bytes(found), is_live, _date(answer.headers.get("Date", ""))
            )

    async def who_am_i(self) -> NodeAnswer:
        """A SelfSubjectReview, which is never answered from what is kept. Raises `Unreachable`."""
        review: dict[str, Any] = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "SelfSubjectReview",
        }
        return await self.ask("POST", _REVIEWS, review)


def node_of(user: str) -> str:
    """Of a user name. Raises `BadInput` where it is no node's."""
    if not user.startswith(PREFIX):
        raise BadInput(f"--kubeconfig is of {user or 'nobody'}, no node: name kubelet's")
    return user.removeprefix(PREFIX)


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except ValueError:
        return None
