"""What is not UTF-8 in percent, or in a body, is answered as kube-apiserver answers it."""

from __future__ import annotations

import json

import pytest

from tests.integration.relay.place import Place
from tools.harness.pods.wire.caller import Caller

READS = (
    "/api/v1/namespaces/%FF/configmaps",
    "/api/v1/namespaces/default/configmaps/%FF",
    "/api/v1/configmaps?labelSelector=a%3D%FF",
    "/api/v1/configmaps?fieldSelector=metadata.name%3D%FF",
    "/api/v1/configmaps?resourceVersion=%FF",
    "/api/v1/configmaps?limit=5&continue=%FF",
    "/api/v1/configmaps?limit=%FF",
    "/apis/%FF/v1/widgets",
    "/openapi/v3/%FF",
    "/%FF",
)
WRITES = (
    ("POST", "/api/v1/namespaces/default/configmaps", "application/json"),
    ("PUT", "/api/v1/namespaces/default/configmaps/a", "application/json"),
    ("PATCH", "/api/v1/namespaces/default/configmaps/a", "application/merge-patch+json"),
    ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "application/json"),
)
BODY = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a\xff"},"data":{"a":"\xff"}}'


@pytest.mark.parametrize("target", READS)
def test_a_read_that_is_not_utf8_is_answered_as_upstream_does(target: str, shared: Place) -> None:
    path, _, query = target.partition("?")
    assert said(shared.caller(), path, query) == said(shared.cloud, path, query)


@pytest.mark.parametrize(("method", "path", "kind"), WRITES)
def test_a_body_that_is_not_utf8_is_answered_as_upstream_does(
    method: str, path: str, kind: str, shared: Place
) -> None:
    here, there = (
        it.ask(path, method=method, body=BODY, headers={"Content-Type": kind})
        for it in (shared.caller(), shared.cloud)
    )
    assert here.status == there.status
    assert shown(here.body) == shown(there.body)


def said(caller: Caller, path: str, query: str) -> tuple[int, object]:
    answered = caller.ask(f"{path}?{query}" if query else path)
    return answered.status, shown(answered.body)


def shown(body: bytes) -> object:
    """How many items a list has, or what a Status says; else the text."""
    try:
        # Go's %q writes the byte as \xff, the relay as U+FFFD.
        document = json.loads(body.replace(rb"\\xff", "\ufffd".encode()))
    except ValueError:
        return body
    if "items" in document:
        return document["kind"], len(document["items"])
    return {name: document.get(name) for name in ("kind", "reason", "message", "code")}
