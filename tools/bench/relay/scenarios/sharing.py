"""What twenty equal clients cost the link, against one: watches, connections, bytes.

The clients are client-go's informers, the upstream is behind a proxy that counts. Guarantee:
bytes are those of the TCP connections, TLS and the relay's own probes included.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from tools.bench.pace import sleep, wait_for
from tools.bench.progress import say
from tools.bench.relay.kubeconfigs import relay_kubeconfig
from tools.bench.relay.world import USER_AGENT, World
from tools.bench.runner import Options
from tools.bench.samples import OURS, REFERENCE, Result, Sample
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.peers.informers import InformerProcess, spec
from tools.harness.relay_objects import Contents, Widgets

MANY = 20
OBJECTS = 20
EVENTS = 200
# Events are this far apart, so that none shares its TLS record with the next one by accident.
EVENT_INTERVAL = 0.01
SYNC_TIMEOUT = 30.0
# Until what was sent before the events has arrived.
SETTLE = 1.0
INFORMER_AGENT = "bench-informer"


@dataclass(frozen=True)
class Kind:
    """What the clients watch. `spec` is an informer's, `edit` makes the event of a number."""

    name: str
    plural: str
    spec: str
    edit: Callable[[int], None]


def sharing(world: World, options: Options) -> list[Result]:
    """Bytes do not change from run to run: one run."""
    results = []
    for kind in _kinds(world):
        for side in (REFERENCE, OURS):
            result = Result(f"sharing-{kind.name}", side)
            one, many = (_measure(world, kind, side, clients) for clients in (1, MANY))
            sample = {f"one_{key}": value for key, value in one.items()}
            sample |= {f"many_{key}": value for key, value in many.items()}
            sample["ratio"] = many["bytes_per_event"] / one["bytes_per_event"]
            result.samples.append(sample)
            results.append(result)
            said = " ".join(f"{key}={value:.4g}" for key, value in sample.items())
            say(f"sharing {kind.name} {side}: {said}")
    return results


def _kinds(world: World) -> list[Kind]:
    """Pods of a node, Services, and a resource that nobody knew before."""
    contents = Contents(world.plane, world.plane.create_namespace("sharing"))
    widgets = Widgets(world.plane)
    for number in range(OBJECTS):
        contents.pod(f"one-{number}", node="sharing-node")
        contents.create("services", f"one-{number}", spec={"ports": [{"port": 80}]})
        widgets.create(contents, f"one-{number}", site="edge", size=0)

    def editor(resource: str) -> Callable[[int], None]:
        def edit(number: int) -> None:
            path = contents.path(resource, f"one-{number % OBJECTS}")
            change = {"metadata": {"annotations": {"bench/number": str(number)}}}
            expect(world.plane.admin.patch(path, change))

        return edit

    of_node = spec("typed", "pods", field_selector="spec.nodeName=sharing-node")
    services = spec("typed", "services", namespace=contents.namespace)
    of_crd = spec("dynamic", widgets.resource, namespace=contents.namespace)
    return [
        Kind("pods of a node", "pods", of_node, editor("pods")),
        Kind("services", "services", services, editor("services")),
        Kind("custom resource", widgets.plural, of_crd, editor(widgets.resource)),
    ]


def _measure(world: World, kind: Kind, side: str, clients: int) -> Sample:
    with ExitStack() as stack:
        link = stack.enter_context(FaultProxy(world.plane.port))
        since = time.time()
        kubeconfig = world.plane.admin_kubeconfig(server=link.url)
        agent = INFORMER_AGENT
        if side == OURS:
            relay = stack.enter_context(world.relay(link=link))
            kubeconfig, agent = relay_kubeconfig(world.folder, relay.url), USER_AGENT
        informers = InformerProcess(
            kubeconfig, [kind.spec], count=clients, user_agent=INFORMER_AGENT
        )
        stack.enter_context(informers)
        world.guard(informers.pid)
        informers.wait_synced(timeout=SYNC_TIMEOUT)
        sleep(SETTLE)
        synced = link.traffic()
        seen = informers.total("modified")
        for number in range(EVENTS):
            kind.edit(number)
            sleep(EVENT_INTERVAL)
        wait_for(
            lambda: informers.total("modified") - seen >= EVENTS * clients,
            timeout=SYNC_TIMEOUT,
            what=f"{kind.name}: all events at {clients} clients",
            interval=0.05,
        )
        traffic = link.traffic()
        informers.check()
        return {
            "watches": float(
                world.plane.count_requests(
                    verb="watch", resource=kind.plural, user_agent=agent, since=since
                )
            ),
            "connections": float(traffic.connections),
            "sync_bytes": float(synced.response_bytes),
            "bytes_per_event": (traffic.response_bytes - synced.response_bytes) / EVENTS,
        }
