"""Three nodes of one pool that share their streams: two of them may lead, each with its candidate,
and all read Services and EndpointSlices through their relays."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL, MAY_LEAD_NODE_LABEL
from pool_sidecar.member.lease_name import PREFIX
from tests.integration.pool.hall import until
from tests.integration.pool.lying_hub import LyingHub
from tests.integration.relay.upstream import is_question
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.audit import RESPONSE_COMPLETE, AuditEvent
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.pools.candidate import nodes_as_proxies, pool_candidate
from tools.harness.pods.pools.controller import PoolControllerPod
from tools.harness.pods.pools.member import PoolNode
from tools.harness.pods.wire.caller import Caller, Watching

SERVICES, SLICES = "services.v1.", "endpointslices.v1.discovery.k8s.io"
PATHS = {SERVICES: "/api/v1/services", SLICES: "/apis/discovery.k8s.io/v1/endpointslices"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/edge-pool/leases"
# Seconds: a link that has just come; a bookmark of the API server, before
# which a stream of one node may be too old for the window of another one; on a busy machine.
TIMEOUT = 200.0


@dataclass
class Sharer:
    """One of the nodes; `candidate` None: it may not lead."""

    node: PoolNode
    candidate: ElectorPod | None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def caller(self) -> Caller:
        return Caller(self.node.relay.url)

    @property
    def leads(self) -> bool:
        return str(self.node.member.status()["role"]) == "Leader"

    def knows(self, hub: Sharer) -> bool:
        """Its relay is told that both streams of the hub are live."""
        member = self.node.member
        told = member.ask("/sources", token=member.token).json()["hub"]
        return told is not None and (told["node"], set(told["live"])) == (hub.name, set(PATHS))

    def streams(self) -> dict[str, tuple[str, str | None]]:
        """State and source of each stream of the pool's, by resource."""
        told: Sequence[dict[str, Any]] = self.node.relay.status()["streams"]
        return {
            it["resource"]: (it["state"], it["source"]) for it in told if it["resource"] in PATHS
        }

    def shared(self) -> dict[str, tuple[bool, bool]]:
        """Whether each stream of the pool is healthy and ready, by the member's metrics."""
        lines = self.node.member.ask("/metrics").body.decode().splitlines()
        return {
            it: (
                f'pool_stream_healthy{{resource="{it}"}} 1' in lines,
                f'pool_stream_ready{{resource="{it}"}} 1' in lines,
            )
            for it in PATHS
        }

    def sources(self) -> str:
        """From where its streams came, in the words of its log."""
        told = ("another source", "stream interrupted", "request ended")
        lines = self.node.relay.log_text(all_lives=True).splitlines()
        return "\n".join(it for it in lines if any(text in it for text in told))

    def is_fed_by(self, source: str) -> bool:
        """Both streams, live."""
        return self.streams() == dict.fromkeys(PATHS, ("live", source))

    def die(self) -> None:
        """Of power: all of its processes in one moment."""
        if self.candidate is not None:
            self.candidate.kill()
        self.node.member.kill()
        self.node.relay.kill()


@dataclass
class Site:
    plane: ControlPlane
    sharers: dict[str, Sharer]

    def hub(self) -> Sharer | None:
        """The one that leads, and is known to."""
        running = (it for it in self.sharers.values() if it.node.member.is_running)
        return next((it for it in running if it.leads), None)

    def wait_hub(self, *, but: str = "") -> Sharer:
        """Until one leads, and feeds all others that are read."""

        def found() -> bool:
            hub = self.hub()
            return (
                hub is not None
                and hub.name != but
                and all(it.knows(hub) for it in self.others(hub) if it.node.member.is_running)
            )

        until(found, what="a hub leads, and all know it", timeout=TIMEOUT)
        hub = self.hub()
        assert hub is not None
        return hub

    def others(self, *but: Sharer) -> list[Sharer]:
        return [it for it in self.sharers.values() if it not in but]

    def wait_fed(self, hub: Sharer, *followers: Sharer) -> None:
        waited = followers or self.others(hub)
        what = f"{hub.name} feeds {', '.join(it.name for it in waited)}"
        try:
            until(lambda: all(it.is_fed_by(hub.name) for it in waited), what=what, timeout=TIMEOUT)
        except AssertionError as error:
            told = (f"{it.name}: {it.streams()}\n{it.sources()}" for it in self.sharers.values())
            raise AssertionError("\n".join([str(error), *told])) from error

    def requests(self, sharer: Sharer, *, since: float = 0.0) -> list[AuditEvent]:
        """Lists and watches of what is shared, at the API server, by that node's relay; without its
        questions beside a watch."""
        return [it for it in self._asked(sharer, since) if not is_question(it)]

    def questions(self, sharer: Sharer, *, since: float) -> list[AuditEvent]:
        return [it for it in self._asked(sharer, since) if is_question(it)]

    def open_watches(self) -> list[tuple[str, str]]:
        """Resource and node of each that runs at the API server."""
        events = [it for name in self.sharers for it in self._events(f"system:node:{name}", 0.0)]
        ended = {it.audit_id for it in events if it.stage == RESPONSE_COMPLETE}
        running = {
            it.audit_id: (it.resource, it.user.removeprefix("system:node:"))
            for it in events
            if it.verb == "watch" and it.audit_id not in ended
        }
        return sorted(running.values())

    def watches_of(self, sharer: Sharer) -> list[str]:
        """The resources of those that run."""
        return [resource for resource, name in self.open_watches() if name == sharer.name]

    def _asked(self, sharer: Sharer, since: float) -> list[AuditEvent]:
        first: dict[str, AuditEvent] = {}
        for event in self._events(f"system:node:{sharer.name}", since):
            first.setdefault(event.audit_id, event)
        return list(first.values())

    def _events(self, user: str, since: float) -> list[AuditEvent]:
        return [
            it
            for resource in ("services", "endpointslices")
            for it in self.plane.audit(stage=None, user=user, resource=resource, since=since)
        ]


class Readers:
    """A watch of each shared resource through each relay; and what each of them saw."""

    def __init__(self, sharers: Sequence[Sharer]) -> None:
        self.watches: dict[tuple[str, str], Watching] = {}
        self._made: set[str] = set()
        self._stack = ExitStack()
        for it in sharers:
            for resource, path in PATHS.items():
                query = {"allowWatchBookmarks": "true"}
                watching = self._stack.enter_context(it.caller.watch(path, query))
                assert watching.status == 200, (it.name, resource)
                self.watches[it.name, resource] = watching

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, sharer: Sharer) -> list[Watching]:
        return [it for (name, _), it in self.watches.items() if name == sharer.name]

    def all_see_news(self, *sharers: Sharer, within: float = 60.0) -> None:
        """A new Service, and its slice."""
        name = make(sharers[0].node.plane)
        self._made.add(name)
        names = {it.name for it in sharers}
        for (node, resource), watching in self.watches.items():
            if node not in names:
                continue
            assert watching.is_open, f"{node} has no watch of {resource} any more"
            watching.wait_for(
                lambda it: any(seen.name == name for seen in it.seen),
                timeout=within,
                what=f"{node} sees {name} of {resource}",
            )

    def assert_in_order(self, *sharers: Sharer) -> None:
        """N5: open all the time, versions never go back, and nothing comes twice."""
        names = {it.name for it in sharers}
        for (node, resource), watching in self.watches.items():
            if node not in names:
                continue
            assert watching.is_open, (node, resource)
            # What was there before comes first, in the order of names.
            news = [it.version for it in watching.events() if it.name in self._made]
            assert news == sorted(set(news)), (node, resource)
            marked = [it.version for it in watching.events("BOOKMARK")]
            assert marked == sorted(marked), (node, resource)


def make(plane: ControlPlane) -> str:
    """A Service and an EndpointSlice of one new name."""
    name = f"new-{secrets.token_hex(4)}"
    spec = {"ports": [{"port": 80}]}
    expect(
        plane.admin.post(
            "/api/v1/namespaces/default/services", {"metadata": {"name": name}, "spec": spec}
        )
    )
    body = {
        "metadata": {"name": name},
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    }
    expect(plane.admin.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", body))
    return name


@contextmanager
def sharing(
    plane: ControlPlane,
    folder: Path,
    *,
    leaders: Sequence[str] = ("s1", "s2"),
    lying: LyingHub | None = None,
) -> Iterator[Site]:
    """`lying`: the relay of the first one, as its member and its peers see it."""
    lan, pool = Reservation(), f"share-{secrets.token_hex(3)}"
    with ExitStack() as stack:
        stack.callback(lan.release)
        stack.enter_context(nodes_as_proxies(plane))
        stack.enter_context(PoolControllerPod(plane, folder)).wait_leading()
        # Else the first candidate waits for as long as a Lease lasts (test_election.py).
        free = {"metadata": {"name": f"{PREFIX}{pool}"}, "spec": {}}
        expect(plane.admin.post(LEASES, free))
        sharers: dict[str, Sharer] = {}
        for number, name in enumerate(("s1", "s2", "s3"), 1):
            elector = Reservation()
            stack.callback(elector.release)
            lease_file = folder / f"lease-{name}"
            labels = {DEFAULT_POOL_LABEL: pool}
            if name in leaders:
                labels[MAY_LEAD_NODE_LABEL] = "true"
            node = stack.enter_context(
                PoolNode(
                    plane,
                    name,
                    address=f"127.0.78.{number}",
                    lan_port=lan.port,
                    folder=folder,
                    labels=labels,
                    flags=[
                        f"--lease-file={lease_file}",
                        f"--elector=http://{LOOPBACK}:{elector.port}",
                    ],
                    is_shared=True,
                )
            )
            if lying is not None and name == leaders[0]:
                node.member.terminate()
                others = ("--relay-status=", "--relay-pool=")
                node.member.flags = [
                    *(it for it in node.member.flags if not it.startswith(others)),
                    f"--relay-status=http://{LOOPBACK}:{lying.status_port}",
                    f"--relay-pool={LOOPBACK}:{lying.pool_port}",
                ]
                node.member.start()
            candidate = None
            if name in leaders:
                candidate = pool_candidate(plane, node, lease_file, elector.port, folder)
                stack.enter_context(candidate).start(wait=False).port = elector.port
            sharers[name] = Sharer(node, candidate)
        yield Site(plane, sharers)
        for it in sharers.values():
            for log in (
                it.node.member.log_text(all_lives=True),
                it.node.relay.log_text(all_lives=True),
            ):
                assert "Traceback" not in log, log
