"""Of two streams of one node the one with the newer proof goes on, and the Node's Events say so."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from edge_sidecars.controllers.event_recorder import event_body
from gm.controller.events import event_namespace, second_stream_event
from gm.hub.core.proof import CERTIFICATE, NodeProof, SecondStream, may_replace, token_proof
from gm.hub.core.session import EndCause, SessionEnded
from gm.hub.hub import Hub
from gm.hub.stream import NodeStream
from gm.hub.stream_server import is_loopback
from tests.integration.gm.streams import Cloud, ReportSink, acknowledge
from tests.unit.gm.hub.samples import hello
from tests.unit.gm.test_events import NOW


def _token(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"header.{payload}.signature"


OF_POD = {"iat": 7, "kubernetes.io": {"pod": {"name": "lc-x", "uid": "p1"}}}


@pytest.mark.parametrize(
    ("token", "proof"),
    [
        (_token(OF_POD), NodeProof(7, "p1")),
        (_token({"iat": 7}), NodeProof(7, "")),
        (_token({"iat": "7", "kubernetes.io": {"pod": {"uid": 3}}}), NodeProof()),
        (_token([]), NodeProof()),
        ("opaque", NodeProof()),
        ("a.%%%.c", NodeProof()),
        ("a.é.c", NodeProof()),
    ],
)
def test_a_token_says_when_it_was_issued_and_to_which_pod(token: str, proof: NodeProof) -> None:
    assert token_proof(token) == proof


@pytest.mark.parametrize(
    ("former", "new", "may"),
    [
        (None, None, True),
        (None, NodeProof(7, "a"), True),
        (NodeProof(7, "a"), None, False),
        (CERTIFICATE, None, False),
        (CERTIFICATE, CERTIFICATE, True),
        (NodeProof(7, "a"), NodeProof(7, "a"), True),
        (NodeProof(7, "a"), NodeProof(7, "b"), False),
        (NodeProof(7, "a"), NodeProof(8, "b"), True),
        (NodeProof(7, "a"), NodeProof(6, "a"), False),
        (NodeProof(7, "a"), NodeProof(6, "b"), False),
    ],
)
def test_a_second_stream_needs_the_newer_token(
    former: NodeProof | None, new: NodeProof | None, may: bool
) -> None:
    told: list[SecondStream] = []

    async def scene() -> None:
        hub = Hub(
            Cloud(),
            ReportSink(acknowledge),
            may_serve=lambda: True,
            rebalances=False,
            second_stream=told.append,
        )
        first = hub.enter(hello("edge-a"), transport="grpc", proof=former)
        assert isinstance(first, NodeStream)
        second = hub.enter(hello("edge-a"), transport="grpc", proof=new)
        assert isinstance(second, NodeStream) is may
        if isinstance(second, SessionEnded):
            assert second.cause is EndCause.FOREIGN
            assert first.ended is None
        else:
            assert first.ended is not None
        hub.leave(first)
        # Of a node that is not connected, any proof will do.
        assert isinstance(hub.enter(hello("edge-b"), transport="grpc", proof=new), NodeStream)

    assert may_replace(former, new) is may
    asyncio.run(scene())
    assert [(each.node, each.is_refused) for each in told] == [("edge-a", not may)]


@pytest.mark.parametrize("namespace", ["default", "shop"])
def test_a_second_stream_is_an_event_on_the_node_told_once_for_each_token(namespace: str) -> None:
    def body(proof: NodeProof, *, is_refused: bool = True) -> dict[str, Any]:
        it = SecondStream("edge-a", proof, is_refused, "why")
        return event_body(second_stream_event(it, namespace=namespace, uid="u"), {}, NOW)

    old, other = body(NodeProof(6, "p")), body(NodeProof(7, "p"))
    assert old["metadata"] == body(NodeProof(6, "p"))["metadata"] != other["metadata"]
    assert old["metadata"]["namespace"] == namespace
    assert old["involvedObject"].get("namespace", "default") == namespace
    assert (old["involvedObject"]["kind"], old["involvedObject"]["name"]) == ("Node", "edge-a")
    assert (old["type"], old["reason"]) == ("Warning", "LCStreamRefused")
    replaced = body(NodeProof(8, "p"), is_refused=False)
    assert (replaced["type"], replaced["reason"]) == ("Normal", "LCStreamReplaced")


def test_events_about_nodes_are_where_gm_may_create_them() -> None:
    assert event_namespace(()) == "default"
    assert event_namespace(("shop", "default")) == "default"
    assert event_namespace(("shop", "lab")) == "shop"


@pytest.mark.parametrize(
    ("peer", "is_local"),
    [
        ("ipv4:127.0.0.1:5", True),
        ("ipv6:%5B::1%5D:5", True),
        ("ipv6:[::ffff:127.0.0.1]:5", True),
        ("ipv4:10.0.0.7:5", False),
        ("ipv6:%5Bfe80::1%25eth0%5D:5", False),
        ("ipv6:[::ffff:10.0.0.7]:5", False),
        ("unix:", False),
        ("", False),
    ],
)
def test_only_loopback_is_this_machine(peer: str, is_local: bool) -> None:
    assert is_loopback(peer) is is_local
