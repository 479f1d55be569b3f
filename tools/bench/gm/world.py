"""What all scenarios share: the API server, clients of it, and fleets of GMs and LCs.

Guarantees: each fleet has a namespace and nodes of its own, and all that it logs; every process is
under the control plane's guardian, so none outlives the benchmark.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from edge_sidecars.sedna_api.core.kinds import kind_named
from tools.bench.gm.manifests import SHARED_DATASET, SHARED_MODELS, dataset, model
from tools.bench.pace import wait_for
from tools.harness.controlplane.clients.answer import ask
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.edge_node import EdgeNode
from tools.harness.pods.gm import LEASE_FLAGS, SHARDING, GmPod
from tools.harness.pods.relay import RelayProcess

Json = dict[str, Any]
T = TypeVar("T")

USER_AGENT = "bench"
# Seconds in which something that is waited for must be so, on a busy machine.
PATIENCE = 120.0
REQUEST_TIMEOUT = 30.0
CLIENTS = 8


class World:
    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self._kubeconfig = plane.admin_kubeconfig()
        self._kept: dict[str, Fleet] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def kept(
        self, name: str, make: Callable[[], "Fleet"], *, fill: Callable[["Fleet"], None]
    ) -> "Fleet":
        """A fleet that several scenarios use, made and filled when it is asked for first."""
        if name not in self._kept:
            self._kept[name] = self._stack.enter_context(make())
            fill(self._kept[name])
        return self._kept[name]

    def play(self, scene: Callable[[ApiClient], Coroutine[Any, Any, T]]) -> T:
        """With a client that may do anything, in an event loop of its own."""

        async def whole() -> T:
            async with self.client() as api:
                return await scene(api)

        return asyncio.run(whole())

    @asynccontextmanager
    async def client(self, *, user_agent: str = USER_AGENT) -> AsyncIterator[ApiClient]:
        api = ApiClient(Kubeconfig(self._kubeconfig), user_agent=user_agent)
        try:
            yield api
        finally:
            await api.close()

    def make(self, namespace: str, manifests: Iterable[Json], *, clients: int = CLIENTS) -> None:
        """Creates them all."""
        self.play(lambda api: create_all(api, namespace, manifests, clients=clients))

    def add_nodes(self, names: Iterable[str]) -> None:
        async def add(api: ApiClient) -> None:
            async def one(name: str) -> None:
                await post(api, "/api/v1/nodes", {"metadata": {"name": name}})

            await spread_over(CLIENTS, names, one)

        self.play(add)


async def create_all(
    api: ApiClient, namespace: str, manifests: Iterable[Json], *, clients: int
) -> None:
    """So many clients at a time; each waits for its answer."""

    async def one(manifest: Json) -> None:
        kind = kind_named(manifest["kind"])
        assert kind is not None, manifest
        await post(api, kind.collection(namespace), manifest)

    await spread_over(clients, manifests, one)


async def post(api: ApiClient, path: str, body: Json) -> Json:
    return await api.request("POST", path, body=body, timeout=REQUEST_TIMEOUT, pooled=True)


async def spread_over(count: int, items: Iterable[T], one: Callable[[T], Awaitable[None]]) -> None:
    """Works on all of them, `count` at a time."""
    waiting = iter(items)

    async def work() -> None:
        for item in waiting:
            await one(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(work())


class Fleet:
    """GMs in one mode and LCs, which run while it is entered, or from `start` on; links of edges
    count bytes. There is a node at least, also where none has an LC. Leases and time-outs are the
    defaults; `is_quick`: as short as leaves time for writes. `is_linked`: GMs have links too, which
    can be cut, and share the machine with what is measured. `has_shards`: all GMs decide."""

    def __init__(
        self,
        world: World,
        *,
        mode: str = "active-standby",
        gms: int = 1,
        edges: int = 1,
        lc_flags: Sequence[str] = ("--dataset-interval=1s",),
        is_started: bool = True,
        is_quick: bool = False,
        is_linked: bool = True,
        has_shards: bool = False,
    ) -> None:
        self.world = world
        self.mode = mode
        self.namespace = world.plane.create_namespace("bench")
        self.nodes = [f"edge-{number}.{self.namespace}" for number in range(max(edges, 1))]
        self._is_started = is_started
        timeout = () if is_quick else ("--request-timeout=5s",)
        leadership = ("--leadership=shards",) if has_shards else ()
        self.pods = [
            GmPod(
                world.plane,
                self.namespace,
                name=f"gm-{number}",
                mode=mode,
                flags=(*timeout, *leadership),
                lease_flags=(
                    *(LEASE_FLAGS if is_quick else ()),
                    *(SHARDING if has_shards else ()),
                ),
                is_linked=is_linked,
            )
            for number in range(gms)
        ]
        self.edges = [
            EdgeNode(
                node,
                world.plane,
                self.pods,
                mode=mode,
                namespace=self.namespace,
                root=Path(tempfile.mkdtemp(dir=world.folder)) / node,
                flags=lc_flags,
            )
            for node in self.nodes[:edges]
        ]
        if not is_quick:
            for pod in self.pods:
                _use_defaults(pod.relay)
            for edge in self.edges:
                _use_defaults(edge.relay)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.world.add_nodes(self.nodes)
        with ExitStack() as stack:
            for pod in self.pods:
                stack.callback(pod.stop)
            for edge in self.edges:
                stack.callback(edge.stop)
            if self._is_started:
                self.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self) -> None:
        """Returns when somebody leads and all LCs are connected."""
        for pod in self.pods:
            pod.start(wait=False)
        for edge in self.edges:
            edge.start()
        for pod in self.pods:
            pod.wait_ready()
        for edge in self.edges:
            edge.lc.wait_ready()
        wait_for(lambda: self.leader() is not None, timeout=PATIENCE, what="a leader")
        for edge in self.edges:
            self.wait_connected(edge)

    def leader(self) -> GmPod | None:
        return next((pod for pod in self.pods if pod.may_act), None)

    def wait_connected(self, edge: EdgeNode) -> None:
        wait_for(lambda: is_connected(edge), timeout=PATIENCE, what=f"{edge.name}: a link")

    def make(self, manifests: Iterable[Json], *, clients: int = CLIENTS) -> None:
        self.world.make(self.namespace, manifests, clients=clients)

    def stock(self) -> None:
        """What jobs refer to; the dataset is on the first node."""
        self.make([dataset(SHARED_DATASET, self.nodes[0]), *map(model, SHARED_MODELS)])


def _use_defaults(relay: RelayProcess | None) -> None:
    """Tests' relays look at their link more often than others, which costs traffic and time."""
    if relay is not None:
        relay.flags = [it for it in relay.flags if not it.startswith("--probe-interval")]


def known(edge: EdgeNode, kind: str = "dataset") -> set[str]:
    """Names of the objects that an LC has; none without an answer."""
    answer = ask(edge.lc.port, "/sedna/objects")
    if answer is None or answer.status != 200:
        return set()
    return {it["name"] for it in json.loads(answer.body)["objects"] if it["kind"] == kind}


def is_connected(edge: EdgeNode) -> bool:
    return bool(edge.lc.status()["link"]["isUp"])
