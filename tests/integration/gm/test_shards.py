"""Three GMs that each decide about the objects of their shards (--leadership shards).

Before a real API server and real relays; who owns which shards the test says, by electors that it
commands."""

import http.client
import json
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Self

import pytest

from edge_sidecars.sedna_api.core.kinds import NODE_REPORT
from edge_sidecars.sedna_api.core.messages import Ack
from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import Report
from tests.integration.gm.node_stream import NodeStream
from tests.integration.gm.shop import Json, Shop
from tests.integration.gm.test_reports import samples
from tests.integration.shard_ring import ShardRing
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.gm import REQUEST_TIMEOUT, GmProcess
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess

NAMES = ("gm-0", "gm-1", "gm-2")
MODES = ["active-standby", "active-active", "relay"]
SHARDS = 64
# The workers of a federated job, each with one pod.
PARTS = ("aggregation", "train")
# Seconds, on a busy machine.
PATIENCE = 60.0


@pytest.fixture
def ring() -> Iterator[ShardRing]:
    with ShardRing(shards=SHARDS) as it:
        it.join(*NAMES)
        it.balance()
        yield it
        assert it.unexpected == []


class ShardedGm:
    """gm and its relay; its elector is the ring's."""

    def __init__(self, shop: Shop, ring: ShardRing, name: str, mode: str) -> None:
        plane = shop.plane
        self.name = name
        self.relay = RelayProcess(
            [f"--kubeconfig={plane.admin_kubeconfig()}"],
            name=f"{name}-relay",
            guardian=plane.guardian,
        )
        self.gm = GmProcess(
            [
                f"--mode={mode}",
                "--leadership=shards",
                f"--api={self.relay.url}",
                f"--relay-status=http://{LOOPBACK}:{self.relay.status_port}",
                f"--elector={ring.url(name)}",
                f"--request-timeout={REQUEST_TIMEOUT}",
                f"--namespace={shop.namespace}",
            ],
            name=name,
            guardian=plane.guardian,
        )

    def start(self) -> None:
        self.relay.start(wait=False)
        self.gm.start()

    def is_at_work(self) -> bool:
        """It has listed everything, and knows what is its own."""
        return self.gm.readyz() == 200 and self.gm.status()["shards"] is not None

    def kill(self) -> None:
        self.gm.kill()
        self.relay.kill()

    def stop(self) -> None:
        self.gm.stop()
        self.relay.stop()


@contextmanager
def gms(shop: Shop, ring: ShardRing, mode: str) -> Iterator[dict[str, ShardedGm]]:
    with ExitStack() as stack:
        found = {name: ShardedGm(shop, ring, name, mode) for name in NAMES}
        for it in found.values():
            stack.callback(it.stop)
            it.start()
        for it in found.values():
            wait_for(it.is_at_work, timeout=PATIENCE, what=f"{it.name} is at work")
        yield found


def writers(shop: Shop, verb: str, resource: str) -> dict[str, list[str]]:
    """By object, which GMs did that with success."""
    found: dict[str, list[str]] = {}
    for event in shop.plane.audit(verb=verb, resource=resource, namespace=shop.namespace):
        if event.user_agent.startswith("gm/") and event.status in (200, 201):
            name = event.user_agent.partition("(")[2].partition(")")[0]
            found.setdefault(event.name, []).append(name)
    return found


def owners(shop: Shop, ring: ShardRing, kind: str) -> dict[str, str]:
    return {it["metadata"]["name"]: ring.owner_of(it["metadata"]["uid"]) for it in shop.items(kind)}


def lists(shop: Shop, since: float) -> list[str]:
    """What GMs and their relays listed."""
    found = shop.plane.audit(verb="list", namespace=shop.namespace, since=since)
    return [it.request_uri for it in found if it.user_agent.startswith(("gm/", "relay-sidecar/"))]


def samples_are(count: int) -> Callable[[Json], bool]:
    return lambda status: status.get("numberOfSamples") == count


def wait_made(shop: Shop, name: str) -> None:
    look = partial(shop.pod_names, name)
    what = f"pods of {name}"
    shop.wait(look, lambda it: len(it) == len(PARTS), what=what, patience=PATIENCE)


def run(shop: Shop, *names: str) -> None:
    """Federated jobs, until they are Running."""
    for name in names:
        shop.federated(name)
    for name in names:
        shop.wait_status("fl", name, lambda it: it.get("phase") == "Running")


@pytest.mark.parametrize("mode", MODES)
def test_each_gm_makes_the_children_of_its_own_objects_and_no_other_gm_does(
    control_plane: ControlPlane, shop: Shop, ring: ShardRing, mode: str
) -> None:
    shop.stock()
    names = [f"f{index:02}" for index in range(18)]
    with gms(shop, ring, mode) as them:
        run(shop, *names)
        owned = owners(shop, ring, "fl")
        assert {*owned.values()} == {*NAMES}
        made = writers(shop, "create", "pods")
        assert made == {f"{name}-{part}-0": [owned[name]] for name in names for part in PARTS}
        # Statuses are their owners', too.
        for name, by in writers(shop, "update", "federatedlearningjobs").items():
            assert {*by} == {owned[name]}
        shares = [len(it.gm.status()["shards"]["owned"]) for it in them.values()]
        assert sorted(shares) == [21, 21, 22]
        leading = [name for name, it in them.items() if it.gm.readyz("?leader=true") == 200]
        assert leading == [ring.owners()[0]]
        assert f"gm_shards {shares[0]}" in them["gm-0"].gm.metrics()


def test_a_moved_shards_objects_are_reconciled_within_a_second_without_a_list(
    control_plane: ControlPlane, shop: Shop, ring: ShardRing
) -> None:
    shop.stock()
    names = [f"f{index:02}" for index in range(12)]
    with gms(shop, ring, "active-active"):
        run(shop, *names)
        before = owners(shop, ring, "fl")
        moved = [name for name, owner in before.items() if owner != "gm-2"]
        # What is gone while it is nobody's is made again by whoever owns the job next.
        ring.give(None, range(SHARDS))
        wait_for(lambda: not ring.owners(), timeout=5.0, what="all is given up")
        for name in moved:
            shop.remove_pod(f"{name}-train-0")
        began = time.time()
        ring.give("gm-2", range(SHARDS))

        def again() -> bool:
            return {f"{name}-train-0" for name in moved} <= {*shop.pod_names()}

        took = wait_for(again, timeout=PATIENCE, what="their pods are there again")
        assert took < 1.0 + 0.1 * len(moved), "one second, on a busy machine with so many writes"
        assert lists(shop, began) == []
        for name in moved:
            by = writers(shop, "create", "pods")[f"{name}-train-0"]
            assert by == [before[name], "gm-2"]


def test_a_hand_over_is_confirmed_by_gm_and_not_waited_out(
    control_plane: ControlPlane, shop: Shop, ring: ShardRing
) -> None:
    shop.stock()
    with gms(shop, ring, "relay") as them:
        run(shop, "f1")
        mine = [number for number, owner in ring.owners().items() if owner == "gm-0"]
        ring.give("gm-1", mine)
        took = wait_for(lambda: not ring.handing_over(), timeout=5.0, what="all is handed over")
        assert took < 2.0, "validity would have taken ten seconds"
        assert sorted(number for _, number, _ in ring.released) == sorted(mine)
        # One that ends stops its work; with nothing owned, /drain is answered at once.
        assert them["gm-0"].gm.post("/drain") == 200
        assert them["gm-1"].gm.terminate() == 0


def report(shop: Shop, mode: str, them: dict[str, ShardedGm], dataset: Json, count: int) -> None:
    """As an LC does in this mode."""
    if mode == "relay":
        metadata = dataset["metadata"]
        one = Report(
            kind="dataset",
            namespace=shop.namespace,
            name=metadata["name"],
            uid=metadata["uid"],
            is_event=False,
            worker="",
            store_id="store",
            seq=1,
            body=samples(count),
        )
        path = NODE_REPORT.path(shop.namespace, "edge-a")
        status, found = shop.plane.admin.get(path)
        start = (
            NodeReport.parse(found)
            if status == 200
            else NodeReport.new(shop.namespace, "edge-a", "store", epoch=1)
        )
        after, _ = start.stored([one])
        if status == 200:
            expect(shop.plane.admin.patch(path, after.to_patch()))
        else:
            expect(shop.plane.admin.post(NODE_REPORT.collection(shop.namespace), after.to_json()))
        return
    serving = [it for it in them.values() if it.gm.readyz("?leader=true") == 200]
    gm = serving[0] if mode == "active-standby" else them["gm-1"]
    with NodeStream(gm.gm.stream_port, "edge-a") as node:
        assert isinstance(node.answer(node.report(dataset, samples(count), seq=1)), Ack)


@pytest.mark.parametrize("mode", MODES)
def test_a_report_is_taken_in_by_the_owner_of_its_object_wherever_it_came(
    control_plane: ControlPlane, shop: Shop, ring: ShardRing, mode: str
) -> None:
    datasets = [shop.dataset(f"d{index}") for index in range(9)]
    with gms(shop, ring, mode) as them:
        for index, dataset in enumerate(datasets):
            report(shop, mode, them, dataset, index + 1)
        for index in range(len(datasets)):
            shop.wait_status("dataset", f"d{index}", samples_are(index + 1))
        owned = owners(shop, ring, "dataset")
        assert len({*owned.values()}) > 1
        for name, by in writers(shop, "update", "datasets").items():
            assert {*by} == {owned[name]}
        folded = {name: it.gm.status()["reports"]["folded"] for name, it in them.items()}
        assert folded == {name: Counter(owned.values())[name] for name in NAMES}


class Kubelet:
    """Sees every pod that is made, and lets those go that are to. `made`: the uids of the pods of
    an owner's uid, by their name."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")
        self._version = expect(shop.plane.admin.get(self._path))["metadata"]["resourceVersion"]
        self.made: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.failures: list[str] = []

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self._shop.namespace}/pods"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        assert self.failures == []

    def _run(self) -> None:
        plane = self._shop.plane
        while not self._is_over.is_set():
            connection = http.client.HTTPSConnection(LOOPBACK, plane.port, context=plane.tls())
            # Short ones, between which the end is noticed; no event is lost between two.
            query = f"watch=true&timeoutSeconds=2&resourceVersion={self._version}"
            connection.request("GET", f"{self._path}?{query}")
            for line in connection.getresponse():
                self._see(json.loads(line))
            connection.close()

    def _see(self, event: Json) -> None:
        if event["type"] == "ERROR":
            self.failures.append(str(event))
            self._is_over.set()
            return
        metadata = event["object"]["metadata"]
        self._version = metadata["resourceVersion"]
        owner = metadata["ownerReferences"][0]["uid"]
        self.made[owner, metadata["name"]].add(metadata["uid"])
        if metadata.get("deletionTimestamp") and event["type"] != "DELETED":
            # By then another one may have its name.
            exactly = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
            self._shop.plane.admin.delete(f"{self._path}/{metadata['name']}", exactly)


class Chaos:
    """Moves shards at random, and kills a GM with its elector now and then, until it ends."""

    def __init__(self, ring: ShardRing, them: dict[str, ShardedGm], seed: int) -> None:
        self._ring = ring
        self._them = them
        self._chance = random.Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos")
        self.faults: Counter[str] = Counter()
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._chance.uniform(0.1, 0.5)):
            try:
                self._chance.choice((self._move, self._move, self._restart, self._kill))()
            except Exception as error:  # noqa: BLE001 - in a thread nobody else sees it
                self.failures.append(repr(error))
                return
        self._ring.balance()

    def _move(self) -> None:
        self.faults["moved"] += 1
        shards = self._chance.sample(range(SHARDS), 16)
        self._ring.give(self._chance.choice(NAMES), shards)

    def _restart(self) -> None:
        self.faults["restarted"] += 1
        self._ring.restart(self._chance.choice(NAMES))

    def _kill(self) -> None:
        self.faults["killed"] += 1
        name = self._chance.choice(NAMES)
        self._them[name].kill()
        self._ring.kill(name)
        self._ring.balance()
        self._ring.join(name)
        self._them[name].start()


@pytest.mark.long
@pytest.mark.slow
def test_no_child_is_made_twice_while_members_die_and_jobs_are_made_anew(
    control_plane: ControlPlane, shop: Shop, ring: ShardRing
) -> None:
    shop.stock()
    uids: dict[str, str] = {}

    def make(name: str) -> None:
        uids[name] = shop.federated(name)["metadata"]["uid"]

    names = [f"j{index:02}" for index in range(30)]
    chance = random.Random(7)
    with Kubelet(shop) as kubelet, gms(shop, ring, "active-active") as them:
        with Chaos(ring, them, seed=7) as chaos:
            for name in names:
                make(name)
                time.sleep(0.1)
            for name in chance.sample(names, 15):
                wait_made(shop, name)
                # Its successor may be another GM's; nobody collects what it leaves but GMs.
                shop.delete("fl", name)
                make(name)
        assert not chaos.failures
        assert set(chaos.faults) == {"moved", "restarted", "killed"}
        _settle(shop, uids)
    made = kubelet.made
    wanted = {(uid, f"{name}-{part}-0") for name, uid in uids.items() for part in PARTS}
    assert {key: len(made[key]) for key in wanted} == dict.fromkeys(wanted, 1)


def _settle(shop: Shop, uids: dict[str, str]) -> None:
    wanted = {(f"{name}-{part}-0", uid) for name, uid in uids.items() for part in PARTS}

    def seen() -> set[tuple[str, str]]:
        return {
            (it["metadata"]["name"], it["metadata"]["ownerReferences"][0]["uid"])
            for it in shop.pods()
        }

    shop.wait(seen, lambda it: it == wanted, what="exactly these pods", patience=2 * PATIENCE)
    for name in uids:
        shop.wait_status("fl", name, lambda it: it.get("phase") == "Running")
