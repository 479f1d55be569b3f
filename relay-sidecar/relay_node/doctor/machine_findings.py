"""What of a node's disk would keep it from coming back: units, the relay's flags and key, kubelet's
and the runtime's configuration.

Pure: facts in, findings out.
"""

from collections.abc import Iterator
from typing import Final

from relay_node.doctor.facts import Facts, Relay
from relay_node.doctor.finding import Finding, unknown
from relay_node.doctor.machine.machine import Machine, RelayStart
from relay_node.doctor.machine.service import Service
from relay_node.doctor.unknown import Unknown

_INSTALL: Final = "run `relay-sidecar node install` again"
_REPAIR: Final = "repair it (`systemctl cat {0}`, `systemctl status {0}`), then ask again"
_PROVE: Final = "restart {0} while the link is up, then ask again"


def of_machine(facts: Facts) -> Iterator[Finding]:
    machine = facts.machine
    if machine.systemd is not None:
        yield unknown(
            "units",
            f"how the node's services run now is not known: {machine.systemd.why}",
            "ask where systemctl works, as root on the node itself",
        )
    for it in (machine.relay, machine.kubelet, machine.runtime):
        if it is not None:
            yield from _of_service(it)
    yield from _of_start(facts)
    for what, path in facts.volatile.items():
        why = f"{path} is on tmpfs or ramfs, which a reboot empties"
        yield Finding(what, why, "put it on a disk")
    yield from _of_kubelet(machine)
    yield from _of_runtime(machine)


def _of_service(it: Service) -> Iterator[Finding]:
    for lack in it.lacks:
        yield Finding(it.name, lack, _remedy(it, lack))
    for doubt in it.doubts:
        yield unknown(it.name, doubt, _REPAIR.format(it.name))
    if it.lacks:
        return
    if it.run is not None and it.run.is_failing:
        why = f"it does not stay up now ({it.run.state})"
        yield Finding(it.name, why, _REPAIR.format(it.name))
    elif it.run is not None and it.run.started_at is None:
        why = f"it does not run now ({it.run.state}), so that nothing shows that it starts"
        yield unknown(it.name, why, "start it, then ask again")
    elif it.unproven:
        changed = ", ".join(map(str, it.unproven))
        why = f"{changed} changed after it was started: whether it starts so is not known"
        yield unknown(it.name, why, _PROVE.format(it.name))


def _remedy(it: Service, lack: str) -> str:
    if "not enabled" in lack:
        return f"systemctl enable {it.name}"
    if "masked" in lack:
        return f"systemctl unmask {it.name}, and enable it"
    return _REPAIR.format(it.name)


# ── the relay ──


def _of_start(facts: Facts) -> Iterator[Finding]:
    start, service = facts.machine.start, facts.machine.relay
    if start is None:
        if service.unit is not None and not service.lacks:
            why = "its ExecStart= is not relay-sidecar itself: its flags are not known"
            yield unknown(service.name, why, _INSTALL)
        return
    for lack in start.lacks:
        yield Finding(service.name, lack, _REPAIR.format(service.name))
    if start.lacks:
        return
    yield from _of_key(facts, start)
    if isinstance(facts.relay, Relay):
        yield from _of_difference(facts.relay, start)


def _of_key(facts: Facts, start: RelayStart) -> Iterator[Finding]:
    """The one with which the journal is sealed, by the running relay's word."""
    said = start.key_lack
    if not said and isinstance(facts.relay, Relay) and facts.relay.secrets.failure is None:
        said = facts.relay.restart.key_failure or ""
    if said:
        remedy = "put the former key back, or restart the relay, and kubelet while the link is up"
        yield Finding("Secrets and tokens", said, remedy)


def _of_difference(relay: Relay, start: RelayStart) -> Iterator[Finding]:
    """Between the relay that runs and the one that the unit starts."""
    now = relay.journal.directory
    if now is not None and str(start.data_dir) != now:
        yield Finding(
            "what the relay keeps",
            f"it is in {now}, and the unit starts the relay with --data-dir {start.data_dir}",
            "restart the relay, and kubelet while the link is up",
        )
    if relay.secrets.is_kept and start.keep_secrets is None:
        yield Finding(
            "Secrets and tokens",
            "the unit starts the relay without --keep-secrets",
            "install with --keep-secrets KEYFILE",
        )


# ── kubelet, and the runtime ──


def _of_kubelet(machine: Machine) -> Iterator[Finding]:
    it = machine.kubelet_settings
    if it is None:
        return
    for lack in it.lacks:
        yield Finding(machine.kubelet.name, lack, _REPAIR.format(machine.kubelet.name))
    if it.swap:
        why = f"/etc/fstab has {it.swap} as swap, with which it does not start"
        yield unknown(machine.kubelet.name, why, "take that out, or set failSwapOn: false")
    if machine.runtime is None:
        why = f"its runtime at {it.socket} is none that is known here"
        yield unknown("the container runtime", why, "see that its unit is enabled")


def _of_runtime(machine: Machine) -> Iterator[Finding]:
    it, service = machine.runtime_settings, machine.runtime
    if isinstance(it, Unknown):
        if service is not None and not service.lacks:
            # Its configuration is read by the program itself, as at its start.
            is_its = "config dump" in it.why and "No such file" not in it.why
            kind = Finding if is_its else unknown
            yield kind("the container runtime", it.why, _REPAIR.format(service.name))
        return
    if not it.sandbox_image:
        why = "which image it makes sandboxes of is not known"
        yield unknown("the container runtime", why, "name one in its configuration")
