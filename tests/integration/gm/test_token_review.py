"""Whose token proves which node, asked of a real API server (G7)."""

import asyncio

import pytest

from edge_sidecars.kubeapi import ApiClient, Plain
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from gm.hub.core.proof import token_proof
from gm.hub.credentials import AUDIENCE, TokenReviews
from gm.hub.ports import ReviewUnavailable
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.settling import connections_closed


def node_of(plane: ControlPlane, token: str, *, account: str) -> str | None:
    async def ask() -> str | None:
        api = ApiClient(Kubeconfig(plane.admin_kubeconfig()), user_agent="test")
        try:
            return await TokenReviews(api, timeout=10.0, account=account).node_of(token)
        finally:
            await api.close()
            await connections_closed()

    return asyncio.run(ask())


class BoundTokens:
    """Tokens of a namespace's accounts, as kubelet of one node gets them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._admin, self._namespace = plane.admin, namespace
        self.node = f"node-of-{namespace}"
        made = expect(self._admin.post("/api/v1/nodes", {"metadata": {"name": self.node}}))
        self._bound = {"apiVersion": "v1", "kind": "Node", "name": self.node}
        self._bound["uid"] = made["metadata"]["uid"]
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        expect(self._admin.post(accounts, {"metadata": {"name": "lc"}}))

    def token(self, account: str = "lc", *, is_bound: bool = True, audience: str = AUDIENCE) -> str:
        spec: dict[str, object] = {"audiences": [audience] if audience else []}
        if is_bound:
            spec["boundObjectRef"] = self._bound
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token"
        return str(expect(self._admin.post(path, {"spec": spec}))["status"]["token"])


def test_g7_only_the_token_of_an_lc_proves_the_node_that_it_is_bound_to(
    control_plane: ControlPlane, namespace: str
) -> None:
    tokens, account = BoundTokens(control_plane, namespace), f"{namespace}:lc"

    def proven(token: str) -> str | None:
        return node_of(control_plane, token, account=account)

    good = tokens.token()
    assert proven(good) == tokens.node
    assert token_proof(good).issued_at > 0
    # Any pod's token, as kubelet mounts it, and those that are made for others.
    assert proven(tokens.token(audience="")) is None
    assert proven(tokens.token(audience="vault")) is None
    assert proven(tokens.token("default")) is None
    assert proven(tokens.token(is_bound=False)) is None
    assert proven("no-token") is None
    assert node_of(control_plane, good, account="other:lc") is None


def test_where_nobody_can_be_asked_that_is_said() -> None:
    async def ask() -> None:
        api = ApiClient(Plain("http://127.0.0.1:1"), user_agent="test")
        try:
            await TokenReviews(api, timeout=2.0, account="sedna:lc").node_of("token")
        finally:
            await api.close()

    with pytest.raises(ReviewUnavailable):
        asyncio.run(ask())
