"""A request that goes to the server and to kube-apiserver, whose answers must be the same.

What only a server can know (uids, times, versions, who manages fields) is left out of the
comparison, and of refusals the words.
"""

import itertools
import json
from typing import Any

from tests.integration.tools.local_apiserver.in_process import InProcess, Told
from tools.harness.controlplane.clients.admin import AdminClient

Json = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_numbers = itertools.count()


class Both:
    """A namespace here and there, and the requests that go to both."""

    def __init__(
        self,
        admin: AdminClient,
        server: InProcess,
    ) -> None:
        self._admin = admin
        self._origin = server
        self.namespace = f"agree-{next(_numbers)}"
        self.log: list[str] = []
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def ask(
        self, method: str, path: str, body: Any = None, *, content_type: str = JSON
    ) -> tuple[Told, Told]:
        """Fails where the answers differ."""
        path = path.replace("NAMESPACE", self.namespace)
        body = json.loads(json.dumps(body).replace("NAMESPACE", self.namespace))
        # Fields of the body may name what only one side knows: its version, its uid.
        there = self._ask_there(method, path, _filled(body, self._known_there, path), content_type)
        here = self._origin.ask(
            method, path, _filled(body, self._known_here, path), content_type=content_type
        )
        self.log.append(f"{method} {path} {content_type} {json.dumps(body)}")
        said = "\n".join(self.log)
        shown = f"{said}\nthere: {there.status} {there.body}\nhere: {here.status} {here.body}"
        assert here.status == there.status, shown
        assert here.body.get("reason") == there.body.get("reason"), shown
        assert _comparable(here.body) == _comparable(there.body), shown
        return there, here

    def _ask_there(self, method: str, path: str, body: Any, content_type: str) -> Told:
        admin = self._admin
        match method:
            case "GET":
                return Told(*admin.get(path))
            case "POST":
                return Told(*admin.post(path, body))
            case "PUT":
                return Told(*admin.put(path, body))
            case "PATCH":
                return Told(*admin.patch(path, body, content_type=content_type))
            case _:
                return Told(*admin.delete(path, body))

    def _known_there(self, path: str) -> Json:
        return self._ask_there("GET", path, None, JSON).body

    def _known_here(self, path: str) -> Json:
        return self._origin.ask("GET", path).body


def _filled(body: Any, known: Any, path: str) -> Any:
    """Puts in the present object's version and uid, where a body says VERSION and UID."""
    text = json.dumps(body)
    if "VERSION" not in text and "UID" not in text:
        return body
    found = known(path.partition("?")[0].removesuffix("/status")).get("metadata", {})
    text = text.replace("VERSION", found.get("resourceVersion", "7"))
    return json.loads(text.replace("UID", found.get("uid", "nobody")))


def _comparable(body: Json) -> Json:
    if body.get("kind") == "Status":
        return {"kind": "Status", "causes": _fields(body)}
    if list(body) == ["message"]:
        return {"message": body["message"].strip()}
    if "items" in body:
        return {"kind": body.get("kind"), "items": [_comparable(one) for one in body["items"]]}
    meta = {
        key: value
        for key, value in body.get("metadata", {}).items()
        if key not in ("uid", "resourceVersion", "creationTimestamp", "managedFields")
    }
    if "deletionTimestamp" in meta:
        meta["deletionTimestamp"] = "set"
    return {**body, "metadata": meta}


def _fields(status: Json) -> list[str]:
    """Which fields are to blame; the words are Kubernetes' own, and may be others here."""
    causes = status.get("details", {}).get("causes", [])
    return sorted({cause.get("field", "") for cause in causes})
