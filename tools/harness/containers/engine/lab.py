"""What one test run makes in the engine, and that nothing of it stays.

Everything bears a label with the id of the process that made it. At the start, what a run left
behind that was killed is removed; at the end, what this one made.
"""

import os
from pathlib import Path
from typing import Any, Self

import docker
from docker.errors import NotFound
from docker.models.containers import Container

LABEL = "edge-sidecars.owner"
Filters = dict[str, str | list[str] | bool]


class DockerLab:
    """Containers and networks of this run; entered once."""

    def __init__(self, client: docker.DockerClient, *, base: str) -> None:
        self.client = client
        # Python and nothing else: for what is no image of ours.
        self.base = base
        self._labels = {LABEL: f"{os.getpid()}.{_started(os.getpid())}"}

    def __enter__(self) -> Self:
        for labels in self._labels_of_all():
            pid, _, started = labels[LABEL].partition(".")
            if _started(int(pid)) != started:
                remove(self.client, f"{LABEL}={labels[LABEL]}")
        return self

    def __exit__(self, *_: object) -> None:
        remove(self.client, f"{LABEL}={self._labels[LABEL]}")

    def start(self, image: str, command: list[str], **settings: Any) -> Container:
        """A container that runs, with the SDK's settings. No capabilities, no way to new ones, and
        a root file system that nobody writes to, as the manifests have it."""
        return self.client.containers.run(
            image,
            command,
            detach=True,
            labels=self._labels,
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            **settings,
        )

    def network_labels(self) -> dict[str, str]:
        return dict(self._labels)

    def _labels_of_all(self) -> list[dict[str, str]]:
        wanted: Filters = {"label": LABEL}
        # Others end at the same time, and take away what is theirs.
        containers = self.client.containers.list(all=True, filters=wanted, ignore_removed=True)
        networks = self.client.networks.list(filters=wanted)
        return [it.labels for it in containers] + [it.attrs["Labels"] for it in networks]


def remove(client: docker.DockerClient, label: str) -> None:
    """Whatever bears the label: `name`, or `name=value`."""
    wanted: Filters = {"label": label}
    for container in client.containers.list(all=True, filters=wanted, ignore_removed=True):
        try:
            container.remove(force=True, v=True)
        except NotFound:
            continue
    for network in client.networks.list(filters=wanted):
        try:
            network.remove()
        except NotFound:
            continue


def _started(pid: int) -> str:
    """When the process was started, which tells it from a later one of its id; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return ""
