"""What is asked of the API server beside resources: discovery, OpenAPI, version and health."""

import hashlib
from http import HTTPStatus

import msgspec

from tools.local_apiserver.core import discovery, openapi
from tools.local_apiserver.core.api_resource import Catalog
from tools.local_apiserver.core.unstructured import Object
from tools.local_apiserver.response import JSON, Answer

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_HEALTH = ("/livez", "/readyz", "/healthz")


class Documents:
    """Made of the catalog as it is in the moment of the question."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def answer(self, path: str, accept: str) -> Answer | None:
        """None: nothing is at this path."""
        if path in _HEALTH:
            return Answer(HTTPStatus.OK, _TEXT, b"ok")
        if path == "/openapi/v2":
            return _openapi_v2(accept)
        if path in ("/api", "/apis") and discovery.AGGREGATED in accept.replace(" ", ""):
            found = discovery.aggregated(self._catalog, of_core=path == "/api")
            headers = {"Content-Type": discovery.AGGREGATED, "Vary": "Accept"}
            return Answer(HTTPStatus.OK, headers, msgspec.json.encode(found))
        document = self._document(path)
        return None if document is None else Answer(HTTPStatus.OK, JSON, _encoded(document))

    def _document(self, path: str) -> Object | None:
        match path.strip("/").split("/"):
            case [""]:
                return {"paths": [*_HEALTH, "/api", "/apis", "/openapi/v2", "/openapi/v3"]}
            case ["version"]:
                return discovery.version()
            case ["api"]:
                return discovery.core_versions()
            case ["api", version]:
                return discovery.resource_list(self._catalog, "", version)
            case ["apis"]:
                return discovery.group_list(self._catalog)
            case ["apis", group]:
                return discovery.group(self._catalog, group)
            case ["apis", group, version] if group:
                return discovery.resource_list(self._catalog, group, version)
            case ["openapi", "v3"]:
                return openapi.index(self._catalog, self._digest())
            case ["openapi", "v3", *rest]:
                return openapi.document(self._catalog, "/".join(rest))
            case _:
                return None

    def _digest(self) -> str:
        """Of all that is served: clients keep a document until the digest changes."""
        found = hashlib.sha256()
        for resource in self._catalog:
            if resource.is_custom:
                found.update(resource.raw_schema)
            found.update(f"{resource.name} {resource.is_served} {resource.has_status}".encode())
        return found.hexdigest().upper()


def _openapi_v2(accept: str) -> Answer:
    if "protobuf" in accept:
        return Answer(HTTPStatus.OK, {"Content-Type": _PROTOBUF}, openapi.v2_protobuf())
    return Answer(HTTPStatus.OK, JSON, _encoded(openapi.v2()))


def _encoded(document: Object) -> bytes:
    return msgspec.json.encode(document)
