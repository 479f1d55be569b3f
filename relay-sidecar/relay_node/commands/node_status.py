"""`relay-sidecar node status`: is a relay installed here, does it serve, and if not, why."""

import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, Final

from edge_sidecars.runtime.cli.status_command import age, aligned
from edge_sidecars.runtime.cli.values import BadInput
from relay_node.doctor.node_reader import Places, kubeconfig_of, status_of
from relay_node.doctor.unknown import Unknown
from relay_node.installer.systemd import units
from relay_sidecar.commands.status import link_line

# Seconds.
SYSTEMCTL_TIMEOUT: Final = 8.0
LINES: Final = 10


def report(places: Places) -> tuple[bool, str]:
    """Whether the relay serves, and a table for people, with what systemd says where it does not.
    Raises `BadInput`."""
    told = status_of(places.status_url)
    rows = [("INSTALLED", _installed(places)), *_relay(told), ("KUBELET", _kubelet(places))]
    serves = not isinstance(told, Unknown) and bool(told["isReady"])
    lines = aligned(rows) if serves else [*aligned(rows), "", *_of_systemd()]
    return serves, "\n".join(lines) + "\n"


def _installed(places: Places) -> str:
    if places.installation.interrupted() is not None:
        return "in part: it was cut short; `relay-sidecar node install` or `uninstall` goes on"
    version = places.installation.version()
    left = ", ".join(places.installation.leftover().get("files", ()))
    if left and not version:
        return f"no; {left} stay until `relay-sidecar node uninstall` finds nothing that needs them"
    return f"by {version}, in {places.data_dir}" if version else f"no, not by {places.data_dir}"


def _relay(told: Mapping[str, Any] | Unknown) -> Iterator[tuple[str, str]]:
    if isinstance(told, Unknown):
        yield "RELAY", told.why
        return
    ready = "ready" if told["isReady"] else f"not ready: {told['lack']}"
    yield "RELAY", f"{told['version']}, up for {age(told['uptimeSeconds'])}, {ready}"
    yield "LINK", link_line(told["link"], told["uptimeSeconds"])
    yield "KEPT", _kept(told)
    yield "JOURNAL", told["journal"]["failure"] or told["journal"]["directory"] or "memory"


def _kept(told: Mapping[str, Any]) -> str:
    secrets = told.get("secrets") or {"isKept": False, "failure": None}
    if not secrets["isKept"]:
        return f"no Secrets and tokens: {secrets['failure'] or '--keep-secrets is not set'}"
    count = sum(map(_is_kept_secret, told["streams"]))
    failure = f": {secrets['failure']}" if secrets["failure"] else ""
    return f"{count} Secrets, {len(told['tokens'])} tokens{failure}"


def _is_kept_secret(stream: Mapping[str, Any]) -> bool:
    """Streams of one name have one object."""
    is_secret = stream["resource"] == "secrets.v1." and bool(stream["namespace"])
    return is_secret and "metadata.name=" in stream["fieldSelector"] and stream["objects"] > 0


def _kubelet(places: Places) -> str:
    try:
        it = kubeconfig_of(places)
    except BadInput as error:
        return str(error)
    way = "the relay" if it.is_by_relay else f"not the relay at {places.listen}"
    return f"{it.path} leads to {it.server}, {way}"


def _of_systemd() -> list[str]:
    """What it last said of the relay."""
    command = ["systemctl", "status", "--no-pager", f"--lines={LINES}", units.RELAY]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SYSTEMCTL_TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        return ["systemctl is missing: see the log of what starts the relay"]
    except subprocess.SubprocessError as error:
        return [f"{' '.join(command)}: {error}"]
    return [f"{' '.join(command)}:", *(done.stdout or done.stderr).splitlines()]
