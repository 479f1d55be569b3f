"""Every loop towards the API server, against one that answers wrongly, at once and every time.

Guarantee under test: none of them asks more than twice a second for long, whatever it is told. All
cases run beside each other in this process, each an elector in a namespace of its own.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from edge_sidecars.kubeapi import ApiClient, Plain
from edge_sidecars.kubeapi.reflector import reflect
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.sedna_api.core.api_object import Document
from elector_sidecar.config.config import load
from elector_sidecar.elector import Elector
from elector_sidecar.machine import SingleMachine
from elector_sidecar.main_container import MainContainer
from elector_sidecar.notifiers.leader_label import LeaderLabel
from elector_sidecar.notifiers.lease_events import LeaseEvents
from elector_sidecar.notifiers.notify_url import NotifyUrl
from tests.integration.elector.election.hostile_server import Case, Fault, HostileServer

# Requests a second, and so many more: three conflicts in a row are answered at once, and what is
# asked before the fault is counted too.
RATE = 2.0
AT_ONCE = 6
# Seconds for which is counted once the fault was met, and for which a busy machine may take to it.
SPAN = 6.0
PATIENCE = 60.0

LEADERS = (
    "get lease",
    "update lease",
    "watch lease",
    "list pods",
    "watch pods",
    "patch pod",
    "create event",
    "notify",
)
STANDBYS = ("get lease", "watch lease")
# What a fault is possible for, where not for every call.
ONLY = {
    Fault.EXPIRED: ("watch lease", "watch pods"),
    Fault.IGNORED: ("update lease", "create lease"),
    Fault.UNDONE: ("patch pod",),
}


Role = tuple[str, str, dict[str, object] | None]


def lease(holder: str) -> dict[str, object]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 600} if holder else {}
    return {"metadata": {"uid": "u", "resourceVersion": "100"}, "spec": spec}


def cases() -> list[Case]:
    """By the role of the elector, what is broken, and how."""
    made = []
    for fault in Fault:
        roles: list[Role] = [("leader", call, lease("")) for call in LEADERS]
        roles += [("standby", call, lease("other")) for call in STANDBYS]
        roles += [("creator", "create lease", None), ("candidate", "update lease", lease(""))]
        for role, call, stored in roles:
            if call in ONLY.get(fault, [call]):
                name = f"{role}-{call.replace(' ', '-')}-{fault.name.lower()}"
                is_on = role != "leader" or call in ("notify", "patch pod", "create event")
                made.append(Case(name, frozenset({call}), fault, stored, is_on=is_on))
    # Created each time, and never there.
    every = frozenset({"get lease", "update lease"})
    made.append(Case("creator-vanishing-missing", every, Fault.MISSING, None))
    return made


async def play(case: Case, url: str) -> None:
    """An elector with everything that it can tell others."""
    flags = ["--lease", "x", "--namespace", case.name, "--server", url, "--on-missing", "take"]
    flags += ["--lease-duration", "4s", "--renew-interval", "1s", "--request-timeout", "2s"]
    config = load(flags, {"POD_NAME": "pod-0", "POD_NAMESPACE": case.name}, hostname="h")
    async with AsyncExitStack() as stack:
        server = ApiClient(Plain(url), user_agent="test")
        stack.push_async_callback(server.close)
        main = await stack.enter_async_context(MainContainer())
        machine = SingleMachine(config, server, identity=f"{case.name}_1")
        elector = Elector(config, main, machine)
        label = LeaderLabel(elector, server, pod_name="pod-0", key="role", value="leader")
        loops = [
            elector.run(),
            label.run(),
            LeaseEvents(elector, server).run(),
            NotifyUrl(elector, main, f"{url}/notify/{case.name}").run(),
        ]
        began_at = boottime()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(loop) for loop in loops]
            while not case.is_on:
                case.is_on = elector.status(boottime()).is_leader
                await elector.changed(0.1)
            while not case.is_met and boottime() - began_at < PATIENCE:
                await elector.changed(0.1)
            await asyncio.sleep(SPAN)
            case.seconds = boottime() - began_at
            for task in tasks:
                task.cancel()


def test_no_loop_asks_more_than_twice_a_second_whatever_it_is_told() -> None:
    async def run() -> list[str]:
        played = cases()
        server = HostileServer(played)
        async with server.opened(), asyncio.TaskGroup() as group:
            for case in played:
                group.create_task(play(case, server.url))
        unasked = [case.name for case in played if not case.is_met]
        assert not unasked, "the fault was never met"
        return [
            f"{case.name}: {call} {count} times in {case.seconds:.0f} s"
            for case in played
            for call, count in case.calls.items()
            if count > RATE * case.seconds + AT_ONCE
        ]

    assert asyncio.run(run()) == []


pod = partial(Document.parse, kind="pod")


class Nobody:
    """Is told, and does nothing."""

    def replaced(self, documents: Sequence[Document], version: int) -> None:
        pass

    def changed(self, document: Document) -> None:
        pass

    def deleted(self, document: Document) -> None:
        pass

    def at(self, version: int) -> None:
        pass


def test_a_followed_collection_is_not_asked_for_more_often_either() -> None:
    """The loop of GM and LC over the same `kubeapi`."""

    async def follow_until(case: Case, url: str) -> None:
        api = ApiClient(Plain(url), user_agent="test")
        path = f"/api/v1/namespaces/{case.name}/pods"
        try:
            async with asyncio.timeout(SPAN):
                await reflect(api, path, decode=pod, sink=Nobody())
        except TimeoutError:
            pass
        finally:
            await api.close()

    async def run() -> list[str]:
        faults = [fault for fault in Fault if "watch pods" in ONLY.get(fault, ["watch pods"])]
        played = [Case(it.name.lower(), frozenset({"watch pods"}), it, None) for it in faults]
        server = HostileServer(played)
        async with server.opened(), asyncio.TaskGroup() as group:
            for case in played:
                group.create_task(follow_until(case, server.url))
        assert all(case.calls["watch pods"] for case in played)
        most = RATE * SPAN + AT_ONCE
        return [f"{case.name}: {dict(case.calls)}" for case in played if case.calls.total() > most]

    assert asyncio.run(run()) == []
