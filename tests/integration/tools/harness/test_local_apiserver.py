"""The local API server as that of a test, and the recorder that stands in for its audit log."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, RESPONSE_STARTED
from tools.harness.controlplane.local_apiserver import LocalApiServerProcess
from tools.harness.pods.observers.observer import wait_for

pytestmark = pytest.mark.long

TIMEOUT = 20.0


@pytest.fixture(scope="module")
def server() -> Iterator[LocalApiServerProcess]:
    with LocalApiServerProcess(is_recorded=True) as it:
        yield it


def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def create(server: LocalApiServerProcess, namespace: str, name: str) -> dict[str, Any]:
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
    }
    return expect(server.admin.post(leases(namespace), body))


def test_a_write_is_recorded_as_kube_apiserver_would_before_it_is_answered(
    server: LocalApiServerProcess,
) -> None:
    namespace = server.create_namespace()
    stored = create(server, namespace, "a")
    [event] = server.audit(verb="create", resource="leases", namespace=namespace)
    assert (event.status, event.name, event.api_group) == (201, "a", "coordination.k8s.io")
    assert event.response_object == stored
    assert event.request_object is not None
    assert event.request_object["metadata"] == {"name": "a"}
    expect(server.admin.patch(f"{leases(namespace)}/a", {"metadata": {"labels": {"x": "y"}}}))
    expect(server.admin.get(f"{leases(namespace)}/a"))
    expect(server.admin.get(leases(namespace)))
    expect(server.admin.delete(f"{leases(namespace)}/a"))
    verbs = [event.verb for event in server.audit(resource="leases", namespace=namespace)]
    assert verbs == ["create", "patch", "get", "list", "delete"]
    assert server.count_requests(resource="leases", namespace=namespace) == len(verbs)


@contextmanager
def watching(server: LocalApiServerProcess, namespace: str) -> Iterator[http.client.HTTPResponse]:
    """The answer to a watch of all Leases of the namespace, from the first on."""
    opened = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT)
    with closing(opened) as connection:
        connection.request("GET", f"{leases(namespace)}?watch=true&resourceVersion=0")
        with connection.getresponse() as response:
            yield response


def test_what_a_watch_tells_is_recorded_before_it_is_told(server: LocalApiServerProcess) -> None:
    namespace = server.create_namespace()
    with watching(server, namespace) as response:
        started = server.audit(stage=RESPONSE_STARTED, verb="watch", namespace=namespace)
        assert [event.status for event in started] == [200]
        create(server, namespace, "a")
        told = json.loads(response.readline())["object"]["metadata"]
    recorded = server.audit(stage=RESPONSE_COMPLETE, verb="create", namespace=namespace)
    versions = [(event.response_object or {})["metadata"]["resourceVersion"] for event in recorded]
    assert told["resourceVersion"] in versions


def test_a_killed_origin_ends_its_watches_and_comes_back_with_its_data(
    server: LocalApiServerProcess,
) -> None:
    namespace = server.create_namespace()
    stored = create(server, namespace, "a")
    with watching(server, namespace) as response:
        response.readline()
        server.stop_apiserver()
        with pytest.raises((ConnectionError, http.client.IncompleteRead)):
            response.read()
    with pytest.raises(OSError, match=r"."):
        server.admin.get(leases(namespace))
    server.start_apiserver()
    assert expect(server.admin.get(f"{leases(namespace)}/a")) == stored


def test_a_frozen_server_answers_when_it_runs_again_also_to_nobody(
    server: LocalApiServerProcess,
) -> None:
    namespace = server.create_namespace()
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    server.freeze()
    try:
        with pytest.raises(TimeoutError):
            server.admin.post(path, body, timeout=0.5)
        time.sleep(0.1)
    finally:
        server.thaw()
    wait_for(
        lambda: bool(server.audit(verb="create", resource="configmaps", namespace=namespace)),
        timeout=TIMEOUT,
        what="the write whose client is gone, in the record",
    )
    assert server.admin.get(f"{path}/late")[0] == 200


def test_nothing_is_left_of_an_origin_that_was_stopped() -> None:
    with LocalApiServerProcess() as it:
        folder = it.folder
        assert (folder / "data").is_dir()
        expect(it.admin.get("/version"))
    assert not folder.exists()
    with pytest.raises(OSError, match="refused"):
        it.admin.get("/version")
