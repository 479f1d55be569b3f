"""Collections are followed: at the API server itself, through a relay, at the local API server."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from edge_sidecars.kubeapi import ApiClient, Credentials, reflector
from edge_sidecars.kubeapi.credentials import Plain
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from edge_sidecars.kubeapi.reflector import METADATA_ONLY, reflect
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.kinds import DATASET, node_label
from tests.integration.lib.kubeapi.reflected import Mirror, reflected
from tests.integration.lib.sedna_api.definitions import sample
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.clients.admin import AdminClient
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.local_apiserver import LocalApiServerProcess
from tools.harness.controlplane.schemas.sedna_kinds import install
from tools.harness.pods.relay import RelayProcess

configmap = partial(Document.parse, kind="configmap")


@dataclass(frozen=True)
class Site:
    """A server that is followed, and the one behind it, where an administrator writes."""

    credentials: Credentials
    server: ApiServer
    namespace: str

    @property
    def admin(self) -> AdminClient:
        return self.server.admin

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    async def create(self, *names: str, **labels: str) -> None:
        for name in names:
            body = {"metadata": {"name": name, "labels": labels}, "data": {"a": "1"}}
            expect(await asyncio.to_thread(self.admin.post, self.path, body))

    async def change(self, name: str, **labels: str | None) -> None:
        body = {"metadata": {"labels": labels}}
        expect(await asyncio.to_thread(self.admin.patch, f"{self.path}/{name}", body))

    async def delete(self, *names: str) -> None:
        for name in names:
            expect(await asyncio.to_thread(self.admin.delete, f"{self.path}/{name}"))


@pytest.fixture(scope="module")
def relay(control_plane: ControlPlane) -> Iterator[RelayProcess]:
    with RelayProcess([f"--kubeconfig={control_plane.admin_kubeconfig()}"]) as process:
        yield process


@pytest.fixture(scope="module")
def local() -> Iterator[LocalApiServerProcess]:
    with LocalApiServerProcess() as server:
        yield server


@pytest.fixture(scope="module")
def without_watch_list() -> Iterator[ControlPlane]:
    with ControlPlane(features=["WatchList=false"]) as plane:
        yield plane


@pytest.fixture(
    params=[
        "direct",
        pytest.param("direct, without WatchList", marks=pytest.mark.long),
        "relay",
        "local",
    ]
)
def site(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Site:
    if request.param == "local":
        local: LocalApiServerProcess = request.getfixturevalue("local")
        return Site(Plain(local.server), local, local.create_namespace())
    if request.param == "direct, without WatchList":
        control_plane = request.getfixturevalue("without_watch_list")
    credentials: Credentials = Kubeconfig(control_plane.admin_kubeconfig())
    if request.param == "relay":
        credentials = Plain(request.getfixturevalue("relay").url)
    return Site(credentials, control_plane, control_plane.create_namespace())


@pytest.fixture
def relayed(control_plane: ControlPlane, relay: RelayProcess, namespace: str) -> Site:
    return Site(Plain(relay.url), control_plane, namespace)


def test_the_whole_list_comes_first_and_then_each_change_in_order(site: Site) -> None:
    async def run() -> None:
        await site.create("a", "b")
        async with reflected(site.credentials, site.path) as mirror:
            await mirror.has("a", "b")
            await site.create("c")
            await site.change("a", x="y")
            await site.delete("b")
            await mirror.until(lambda it: len(it.log) == 3)
            assert mirror.log == [("changed", "c"), ("changed", "a"), ("deleted", "b")]
            assert mirror.lists == 1
            assert mirror.objects["a"].json()["metadata"]["labels"] == {"x": "y"}

    asyncio.run(run())


def test_a_change_after_a_silence_comes_at_once_and_those_after_it_gather(relayed: Site) -> None:
    site, gather = relayed, 5.0

    async def run() -> None:
        async with reflected(site.credentials, site.path, gather=gather) as mirror:
            await mirror.has()
            # Just behind the moment at which what had gathered is read.
            await asyncio.sleep(gather - asyncio.get_running_loop().time() % gather + 0.1)
            await site.create("first")
            await mirror.has("first")
            await site.create("second")
            await asyncio.sleep(0.5)
            assert set(mirror.objects) == {"first"}
            await mirror.has("first", "second")

    asyncio.run(run())


def test_changes_that_gather_come_whole_and_in_order(site: Site) -> None:
    names = [f"n{number:02}" for number in range(40)]

    async def run() -> None:
        async with reflected(site.credentials, site.path, gather=0.1) as mirror:
            await mirror.has()
            await site.create(*names)
            await site.delete(*names[:20])
            await mirror.until(lambda it: len(it.log) == 60)
            created = [("changed", name) for name in names]
            assert mirror.log == created + [("deleted", name) for name in names[:20]]

    asyncio.run(run())


@pytest.mark.long
def test_a_list_of_many_pages_is_told_as_one(
    without_watch_list: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflector, "PAGE", 3)
    names = [f"n{number}" for number in range(10)]
    namespace = without_watch_list.create_namespace()
    site = Site(Kubeconfig(without_watch_list.admin_kubeconfig()), without_watch_list, namespace)

    async def run() -> None:
        await site.create(*names)
        async with reflected(site.credentials, site.path, accept=METADATA_ONLY) as mirror:
            await mirror.has(*names)
            assert mirror.lists == 1
            assert {it.json()["kind"] for it in mirror.objects.values()} == {
                "PartialObjectMetadata"
            }
            await site.create("more")
            await mirror.has(*names, "more")
        pages = without_watch_list.count_requests(
            user_agent="follow-test", verb="list", namespace=namespace
        )
        assert pages == 4

    asyncio.run(run())


def test_an_empty_collection_is_told_to_be_empty(site: Site) -> None:
    async def run() -> None:
        async with reflected(site.credentials, site.path) as mirror:
            await mirror.has()
            assert mirror.version >= 0

    asyncio.run(run())


def test_what_leaves_the_selector_is_told_as_deleted(site: Site) -> None:
    async def run() -> None:
        await site.create("mine", "too", node="a")
        await site.create("other", node="b")
        selector = {"labelSelector": "node=a"}
        async with reflected(site.credentials, site.path, params=selector) as mirror:
            await mirror.has("mine", "too")
            await site.change("too", node=None)
            await mirror.has("mine")
            await site.change("other", node="a")
            await mirror.has("mine", "other")

    asyncio.run(run())


@pytest.mark.parametrize("selects_by", ["field", "label"])
def test_an_lc_follows_what_concerns_its_node_until_it_moves_elsewhere(
    site: Site, selects_by: str
) -> None:
    """As in mode relay: by the field that names the node, or by the label that GM stamps."""
    label = node_label("edge-a")
    selectors = {
        "field": {"fieldSelector": "spec.nodeName=edge-a"},
        "label": {"labelSelector": label},
    }

    async def run() -> None:
        await asyncio.to_thread(install, site.server)
        path = DATASET.collection(site.namespace)
        for name, node in (("mine", "edge-a"), ("other", "edge-b")):
            dataset = sample(DATASET)
            dataset["metadata"] = {"name": name, "labels": {node_label(node): ""}}
            dataset["spec"]["nodeName"] = node
            expect(await asyncio.to_thread(site.admin.post, path, dataset))
        async with reflected(site.credentials, path, params=selectors[selects_by]) as mirror:
            await mirror.has("mine")
            moved = {"metadata": {"labels": {label: None}}, "spec": {"nodeName": "edge-b"}}
            expect(await asyncio.to_thread(site.admin.patch, f"{path}/mine", moved))
            await mirror.has()
            assert mirror.log == [("deleted", "mine")]
            moved = {"metadata": {"labels": {label: ""}}, "spec": {"nodeName": "edge-a"}}
            expect(await asyncio.to_thread(site.admin.patch, f"{path}/other", moved))
            await mirror.has("other")

    asyncio.run(run())


def test_metadata_alone_is_followed_where_no_more_is_asked_for(site: Site) -> None:
    async def run() -> None:
        await site.create("a")
        async with reflected(site.credentials, site.path, accept=METADATA_ONLY) as mirror:
            await mirror.has("a")
            await site.create("b")
            await mirror.has("a", "b")
            assert all("data" not in it.json() for it in mirror.objects.values())

    asyncio.run(run())


@pytest.mark.parametrize("break_", [FaultProxy.reset, FaultProxy.refuse])
def test_after_a_cut_it_goes_on_from_where_it_had_come_to(
    relayed: Site, relay: RelayProcess, break_: Callable[[FaultProxy], None]
) -> None:
    async def run(link: FaultProxy) -> None:
        await relayed.create("a", "b")
        async with reflected(Plain(link.url), relayed.path) as mirror:
            await mirror.has("a", "b")
            await asyncio.to_thread(break_, link)
            await relayed.delete("a")
            await relayed.create("c")
            await asyncio.to_thread(link.heal)
            await mirror.has("b", "c")
            assert mirror.log == [("deleted", "a"), ("changed", "c")]
            assert mirror.lists == 1

    with FaultProxy(relay.port, scheme="http") as link:
        asyncio.run(run(link))


def test_a_server_that_forgot_is_asked_for_everything_anew() -> None:
    """What was deleted meanwhile is not in the new list."""

    async def run(link: FaultProxy, own: LocalApiServerProcess) -> None:
        site = Site(Plain(own.server), own, own.create_namespace())
        await site.create("a", "b")
        async with reflected(Plain(link.url), site.path) as mirror:
            await mirror.has("a", "b")
            await asyncio.to_thread(link.refuse)
            await site.delete("a")
            await site.create("c")
            # Its window begins where it was started.
            await asyncio.to_thread(own.stop_apiserver)
            await asyncio.to_thread(own.start_apiserver)
            await asyncio.to_thread(link.heal)
            await mirror.has("b", "c")
            assert mirror.lists == 2
            assert mirror.log == []

    with LocalApiServerProcess() as own, FaultProxy(own.port, scheme="http") as link:
        asyncio.run(run(link, own))


def test_a_server_with_another_history_is_believed() -> None:
    """Its versions lie below those that were told: restored from a backup, or made anew."""

    async def run(old: LocalApiServerProcess, new: LocalApiServerProcess, link: FaultProxy) -> None:
        namespace = old.create_namespace()
        expect(new.admin.post("/api/v1/namespaces", {"metadata": {"name": namespace}}))
        site = Site(Plain(old.server), old, namespace)
        await site.create("a", *(f"x{number}" for number in range(30)))
        await Site(Plain(new.server), new, namespace).create("b")
        async with reflected(Plain(link.url), site.path) as mirror:
            await mirror.until(lambda it: len(it.objects) == 31)
            await asyncio.to_thread(link.stop)
            with FaultProxy(new.port, port=link.port):
                await mirror.has("b")

    with (
        LocalApiServerProcess() as old,
        LocalApiServerProcess() as new,
        FaultProxy(old.port, scheme="http") as link,
    ):
        asyncio.run(run(old, new, link))


def test_a_collection_that_is_not_served_yet_is_waited_for(local: LocalApiServerProcess) -> None:
    async def run() -> None:
        path = "/apis/later.example.com/v1/things"
        async with reflected(Plain(local.server), path) as mirror:
            await asyncio.sleep(0.3)
            assert mirror.lists == 0
            definition = {
                "metadata": {"name": "things.later.example.com"},
                "spec": {
                    "group": "later.example.com",
                    "names": {"kind": "Thing", "plural": "things"},
                    "scope": "Cluster",
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {"openAPIV3Schema": {"type": "object"}},
                        }
                    ],
                },
            }
            crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            expect(await asyncio.to_thread(local.admin.post, crds, definition))
            await mirror.has()

    asyncio.run(run())


def test_of_a_kind_that_need_not_be_served_there_is_nothing(site: Site) -> None:
    async def run() -> None:
        path = "/apis/never.example.com/v1/things"
        async with reflected(site.credentials, path, is_optional=True) as mirror:
            await mirror.has()
            assert mirror.version == 0

    asyncio.run(run())


def test_a_sink_that_fails_ends_following(local: LocalApiServerProcess) -> None:
    class Broken(Mirror):
        def at(self, version: int) -> None:
            raise KeyError("of the sink")

        def changed(self, document: object) -> None:
            raise ValueError("of the sink")

    async def run() -> None:
        site = Site(Plain(local.server), local, local.create_namespace())
        api = ApiClient(site.credentials, user_agent="follow-test")
        sink = Broken()
        task = asyncio.create_task(reflect(api, site.path, decode=configmap, sink=sink))
        try:
            await sink.has()
            await site.create("a")
            with pytest.raises(ValueError, match="of the sink"):
                await task
        finally:
            await api.close()

    asyncio.run(run())
