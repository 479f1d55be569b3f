"""The same calls against a real kube-apiserver, with each kind of credentials."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import pytest

from edge_sidecars.kubeapi import (
    ApiClient,
    Conflict,
    Credentials,
    Forbidden,
    InCluster,
    NotFound,
    Unreachable,
)
from edge_sidecars.kubeapi.client import MERGE_PATCH
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.settling import connections_closed

T = TypeVar("T")
CONFIG_MAPS: list[dict[str, list[str]]] = [
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    }
]


def ask(credentials: Credentials, work: Callable[[ApiClient], Awaitable[T]]) -> T:
    async def run() -> T:
        server = ApiClient(credentials, user_agent="kubeapi-test")
        try:
            return await work(server)
        finally:
            await server.close()
            await connections_closed()

    return asyncio.run(run())


def collection(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


async def life(server: ApiClient, namespace: str) -> None:
    """Create, read, update, patch and delete; each refusal as its type."""
    path = collection(namespace)
    created = await server.request("POST", path, body=config_map("x"), timeout=10)
    with pytest.raises(Conflict):
        await server.request("POST", path, body=config_map("x"), timeout=10)
    read = await server.request("GET", f"{path}/x", timeout=10)
    assert read["metadata"]["uid"] == created["metadata"]["uid"]
    changed = copy.deepcopy(read) | {"data": {"a": "1"}}
    await server.request("PUT", f"{path}/x", body=changed, timeout=10)
    with pytest.raises(Conflict) as raised:  # the resourceVersion that was read is not stored
        await server.request("PUT", f"{path}/x", body=changed, timeout=10)
    assert raised.value.reason == "Conflict"
    patched = await server.request(
        "PATCH", f"{path}/x", body={"data": {"b": "2"}}, content_type=MERGE_PATCH, timeout=10
    )
    assert patched["data"] == {"a": "1", "b": "2"}
    listed = await server.request(
        "GET", path, params={"fieldSelector": "metadata.name=x"}, timeout=10
    )
    assert [item["metadata"]["name"] for item in listed["items"]] == ["x"]
    await server.request("DELETE", f"{path}/x", timeout=10)
    with pytest.raises(NotFound):
        await server.request("GET", f"{path}/x", timeout=10)


def test_a_kubeconfig_with_a_client_certificate_may_do_all(
    control_plane: ControlPlane, namespace: str
) -> None:
    credentials = Kubeconfig(control_plane.admin_kubeconfig())
    assert credentials.namespace == "default"
    assert asyncio.run(credentials.authorization()) is None
    ask(credentials, lambda server: life(server, namespace))


def test_a_kubeconfig_with_a_token_may_do_what_its_account_may(
    control_plane: ControlPlane, namespace: str
) -> None:
    credentials = Kubeconfig(control_plane.kubeconfig_for(namespace, "account", CONFIG_MAPS))
    assert credentials.namespace == namespace
    ask(credentials, lambda server: life(server, namespace))


def test_a_pods_service_account_may_do_what_its_role_says(
    control_plane: ControlPlane, namespace: str
) -> None:
    folder = control_plane.service_account_dir(namespace, "account", CONFIG_MAPS)
    credentials = InCluster(control_plane.server, folder.path)
    ask(credentials, lambda server: life(server, namespace))


def test_rbac_is_a_forbidden_that_names_the_rule(
    control_plane: ControlPlane, namespace: str
) -> None:
    folder = control_plane.service_account_dir(namespace, "nobody", [])

    async def work(server: ApiClient) -> None:
        with pytest.raises(Forbidden, match='cannot get resource "configmaps"'):
            await server.request("GET", f"{collection(namespace)}/x", timeout=10)
        with pytest.raises(Forbidden):
            async with aclosing(
                server.lines(collection(namespace), open_timeout=10, params={"watch": "true"})
            ) as lines:
                await anext(lines)

    ask(InCluster(control_plane.server, folder.path), work)


def test_a_watch_that_the_server_ends_ends_in_order(
    control_plane: ControlPlane, namespace: str
) -> None:
    async def work(server: ApiClient) -> list[bytes]:
        params = {"watch": "true", "timeoutSeconds": "1"}
        return [
            line
            async for line in server.lines(collection(namespace), open_timeout=10, params=params)
        ]

    assert ask(Kubeconfig(control_plane.admin_kubeconfig()), work) == []


def test_a_ca_that_did_not_sign_the_server_is_unreachable(
    control_plane: ControlPlane, namespace: str
) -> None:
    folder = control_plane.service_account_dir(namespace, "account", CONFIG_MAPS)
    credentials = InCluster(control_plane.server, folder.path)
    folder.replace(ca=(control_plane.folder / "client-ca.crt").read_bytes())
    with pytest.raises(Unreachable, match="certificate"):
        ask(credentials, lambda server: server.request("GET", "/api", timeout=10))


def test_another_server_than_the_kubeconfigs_can_be_named(control_plane: ControlPlane) -> None:
    credentials = Kubeconfig(
        control_plane.admin_kubeconfig(), server=f"https://localhost:{control_plane.port}/"
    )
    assert credentials.server == f"https://localhost:{control_plane.port}"
    assert ask(credentials, lambda it: it.request("GET", "/version", timeout=10))["major"] == "1"
