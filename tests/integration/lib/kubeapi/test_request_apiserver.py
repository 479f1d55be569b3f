"""Exchanges with a real kube-apiserver, over a link that breaks."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import uvloop

from edge_sidecars.kubeapi import (
    ApiTransport,
    Credentials,
    InCluster,
    NotSent,
    Request,
    StaleConnection,
    Unreachable,
    transport,
)
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from edge_sidecars.kubeapi.messages import Identity
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy

T = TypeVar("T")
JSON = [("Content-Type", "application/json"), ("Accept", "application/json")]
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
# Seconds on a machine that is busy with other tests; and where no answer is to come.
TIMEOUT = 15.0
PATIENCE = 3.0


def using(credentials: Credentials, work: Callable[[ApiTransport], Awaitable[T]]) -> T:
    async def run() -> T:
        transport = ApiTransport(credentials, user_agent="request-test")
        try:
            return await work(transport)
        finally:
            await transport.close()

    return uvloop.run(run())


async def ask(
    api: ApiTransport,
    method: str,
    target: str,
    content: object = None,
    *,
    token: str | None = None,
    identity: Identity = "own",
    timeout: float = TIMEOUT,
) -> tuple[int, dict[str, Any]]:
    body = None if content is None else json.dumps(content).encode()
    headers = JSON if token is None else [*JSON, ("Authorization", f"Bearer {token}")]
    request = Request(
        method, target, header_timeout=timeout, headers=headers, body=body, identity=identity
    )
    async with api.send(request) as answer:
        decoded: dict[str, Any] = json.loads(await answer.read(limit=10_000_000))
        return answer.status, decoded


async def failure(request: Awaitable[object]) -> type[Unreachable]:
    with pytest.raises(Unreachable) as raised:
        await request
    return type(raised.value)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def collection(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def test_a_callers_request_is_the_callers_whatever_certificate_we_have(
    control_plane: ControlPlane, namespace: str
) -> None:
    """kube-apiserver believes a client certificate before a token."""
    token = control_plane.new_token(namespace, "default")

    async def work(api: ApiTransport) -> None:
        status, ours = await ask(api, "POST", REVIEWS, REVIEW)
        assert (status, ours["status"]["userInfo"]["username"]) == (201, "controlplane-admin")
        status, theirs = await ask(api, "POST", REVIEWS, REVIEW, token=token, identity="caller")
        user = f"system:serviceaccount:{namespace}:default"
        assert (status, theirs["status"]["userInfo"]["username"]) == (201, user)
        status, nobodys = await ask(api, "GET", collection(namespace), identity="caller")
        assert (status, nobodys["code"]) == (403, 403)
        status, bad = await ask(api, "GET", "/api", token="forged", identity="caller")
        assert (status, bad["code"]) == (401, 401)
        status, again = await ask(api, "POST", REVIEWS, REVIEW, token="forged")
        assert (status, again["status"]["userInfo"]["username"]) == (201, "controlplane-admin")

    using(Kubeconfig(control_plane.admin_kubeconfig()), work)


def test_a_token_that_was_renewed_is_used_from_the_next_request_on(
    control_plane: ControlPlane, namespace: str
) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    folder = control_plane.service_account_dir(namespace, "rotating", rules)

    async def work(api: ApiTransport) -> None:
        status, _ = await ask(api, "GET", collection(namespace))
        assert status == 200
        folder.replace(token="nonsense")
        status, _ = await ask(api, "GET", collection(namespace))
        assert status == 401
        folder.replace(token=control_plane.new_token(namespace, "rotating"))
        status, _ = await ask(api, "GET", collection(namespace))
        assert status == 200

    using(InCluster(control_plane.server, folder.path), work)


@pytest.mark.parametrize("fault", ["refuse", "reset", "black_hole"])
def test_a_write_into_a_link_that_is_gone_was_not_sent(
    control_plane: ControlPlane, namespace: str, fault_proxy: FaultProxy, fault: str
) -> None:
    credentials = Kubeconfig(control_plane.admin_kubeconfig(), server=fault_proxy.url)
    {
        "refuse": fault_proxy.refuse,
        "reset": fault_proxy.reset,
        "black_hole": fault_proxy.black_hole,
    }[fault]()

    async def work(api: ApiTransport) -> type[Unreachable]:
        lost = config_map("lost")
        return await failure(ask(api, "POST", collection(namespace), lost, timeout=PATIENCE))

    assert using(credentials, work) is NotSent
    fault_proxy.heal()
    status, _ = control_plane.admin.get(f"{collection(namespace)}/lost")
    assert status == 404


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("is_reset", [False, True])
def test_a_write_whose_answer_is_lost_was_applied_once(
    control_plane: ControlPlane,
    namespace: str,
    fault_proxy: FaultProxy,
    is_reset: bool,
    is_kept: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However slow this machine is.
    monkeypatch.setattr(transport, "POOLED_FOR_WRITES", 60.0)
    credentials = Kubeconfig(control_plane.admin_kubeconfig(), server=fault_proxy.url)

    async def work(api: ApiTransport) -> type[Unreachable]:
        if is_kept:
            await ask(api, "GET", collection(namespace))
        await asyncio.to_thread(fault_proxy.lose_response, reset=is_reset)
        made = config_map("made")
        return await failure(ask(api, "POST", collection(namespace), made, timeout=PATIENCE))

    kind = using(credentials, work)
    fault_proxy.heal()
    assert kind is (StaleConnection if is_kept and is_reset else Unreachable)
    status, _ = control_plane.admin.get(f"{collection(namespace)}/made")
    assert status == 200
    sent = control_plane.count_requests(
        user_agent="request-test", verb="create", namespace=namespace, resource="configmaps"
    )
    assert sent == 1


def test_a_watch_tells_its_events_in_order_until_its_link_is_cut(
    control_plane: ControlPlane, namespace: str, fault_proxy: FaultProxy
) -> None:
    credentials = Kubeconfig(control_plane.admin_kubeconfig(), server=fault_proxy.url)
    names: list[str] = []
    told = asyncio.Event()

    async def watch(api: ApiTransport) -> None:
        target = f"{collection(namespace)}?watch=true"
        async with api.send(Request("GET", target, header_timeout=TIMEOUT, headers=JSON)) as answer:
            assert answer.status == 200
            async for batch in answer.batches():
                names.extend(json.loads(line)["object"]["metadata"]["name"] for line in batch)
                if len(names) == 20:
                    told.set()

    async def work(api: ApiTransport) -> None:
        watching = asyncio.ensure_future(watch(api))
        for number in range(20):
            await ask(api, "POST", collection(namespace), config_map(f"n{number}", a="x" * 100_000))
        async with asyncio.timeout(10):
            await told.wait()
        assert names == [f"n{number}" for number in range(20)]
        await asyncio.to_thread(fault_proxy.black_hole)
        api.abort()
        async with asyncio.timeout(5):
            assert await failure(watching) is Unreachable

    using(credentials, work)
