"""Whose token proves which node, asked of a real API server (G7)."""

import asyncio

import pytest

from edge_sidecars.kubeapi import ApiClient, Plain
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from gm.hub.credentials import TokenReviews
from gm.hub.ports import ReviewUnavailable
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.settling import connections_closed


def node_of(plane: ControlPlane, token: str) -> str | None:
    async def ask() -> str | None:
        api = ApiClient(Kubeconfig(plane.admin_kubeconfig()), user_agent="test")
        try:
            return await TokenReviews(api, timeout=10.0).node_of(token)
        finally:
            await api.close()
            await connections_closed()

    return asyncio.run(ask())


def test_g7_a_token_proves_the_node_that_it_is_bound_to(
    control_plane: ControlPlane, namespace: str
) -> None:
    admin = control_plane.admin
    name = f"node-of-{namespace}"
    node = expect(admin.post("/api/v1/nodes", {"metadata": {"name": name}}))
    uid = node["metadata"]["uid"]
    bound = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    token = expect(admin.post(path, {"spec": {"boundObjectRef": bound}}))["status"]["token"]
    assert node_of(control_plane, token) == name


def test_g7_a_token_that_is_bound_to_no_node_or_is_none_proves_nothing(
    control_plane: ControlPlane, namespace: str
) -> None:
    assert node_of(control_plane, control_plane.new_token(namespace, "default")) is None
    assert node_of(control_plane, "no-token") is None


def test_where_nobody_can_be_asked_that_is_said() -> None:
    async def ask() -> None:
        api = ApiClient(Plain("http://127.0.0.1:1"), user_agent="test")
        try:
            await TokenReviews(api, timeout=2.0).node_of("token")
        finally:
            await api.close()

    with pytest.raises(ReviewUnavailable):
        asyncio.run(ask())
