"""An aggregated API whose server is down: what kube-apiserver says of it goes through, whatever was
asked, and the link is not said to be cut."""

import time
from collections.abc import Iterator

import pytest

from tests.integration.relay.place import Place
from tools.harness.pods.wire.caller import Parameters

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
API = "/apis/metrics.k8s.io/v1beta1"
APISERVICE = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1beta1.metrics.k8s.io"},
    "spec": {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {"name": "nowhere", "namespace": "kube-system"},
    },
}
# Seconds.
HEARD_OF = 10.0
ASKED: dict[str, tuple[str, Parameters]] = {
    "discovery": (API, {}),
    "list": (f"{API}/nodes", {}),
    "list of any age": (f"{API}/nodes", {"resourceVersion": "0"}),
    "get": (f"{API}/nodes/n", {}),
    "get of any age": (f"{API}/nodes/n", {"resourceVersion": "0"}),
    "watch": (f"{API}/nodes", {"watch": "1"}),
}
ACCEPTS = {
    "json": "application/json",
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "protobuf": "application/vnd.kubernetes.protobuf",
}


@pytest.fixture
def down(shared: Place) -> Iterator[Place]:
    """Where kube-apiserver has heard of an API that no server serves."""
    shared.cloud.post(SERVICES, APISERVICE).expect(201)
    try:
        yield shared
    finally:
        shared.cloud.delete(f"{SERVICES}/v1beta1.metrics.k8s.io")


def test_r9_what_upstream_says_of_an_api_that_is_down_goes_through(down: Place) -> None:
    for what, (path, query) in ASKED.items():
        for form, accept in ACCEPTS.items():
            said = down.caller(Accept=accept).get(path, query)
            deadline = time.monotonic() + HEARD_OF
            while said.status == 404 and time.monotonic() < deadline:
                time.sleep(0.05)
                said = down.caller(Accept=accept).get(path, query)
            assert (said.status, said.body) == (503, b"service unavailable\n"), (what, form)
