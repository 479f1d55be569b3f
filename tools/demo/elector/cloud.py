"""What an operator does in the cloud, past every link: ConfigMaps are made, changed and deleted.

Guarantee: there are always as many of them, and each `change` is one of every kind of event.
"""

from collections import deque
from dataclasses import dataclass

from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.api_server import ApiServer

SETTINGS = "settings"
JOBS = 2


@dataclass(frozen=True)
class Change:
    """Names of ConfigMaps; `revision` is what the changed one says now."""

    changed: str
    revision: int
    deleted: str
    created: str

    def events(self) -> list[tuple[str, str]]:
        """What a watch tells of it: types and names."""
        return [("MODIFIED", self.changed), ("DELETED", self.deleted), ("ADDED", self.created)]


class Cloud:
    """`publish` first."""

    def __init__(self, plane: ApiServer, namespace: str) -> None:
        self._admin = plane.admin
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._revision = 1
        self._jobs: deque[str] = deque()
        self._made = 0

    def publish(self) -> None:
        self._create(SETTINGS, revision=self._revision)
        for _ in range(JOBS):
            self._create_job()

    def change(self) -> Change:
        self._revision += 1
        patch = {"data": {"revision": str(self._revision)}}
        expect(self._admin.patch(f"{self._path}/{SETTINGS}", patch))
        deleted = self._jobs.popleft()
        expect(self._admin.delete(f"{self._path}/{deleted}"))
        return Change(SETTINGS, self._revision, deleted, self._create_job())

    def versions(self) -> dict[str, str]:
        """resourceVersions by name."""
        page = expect(self._admin.get(self._path))
        return {
            item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in page["items"]
        }

    def _create_job(self) -> str:
        self._made += 1
        name = f"job-{self._made}"
        self._create(name, revision=1)
        self._jobs.append(name)
        return name

    def _create(self, name: str, *, revision: int) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name},
            "data": {"revision": str(revision)},
        }
        expect(self._admin.post(self._path, body))
