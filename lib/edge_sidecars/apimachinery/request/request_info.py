"""What a request asks for, in Kubernetes' words.

Owns: from method and target to verb, resource, namespace, name. Its options (list_options) and its
representation (accept) are at hand from here. Guarantees: The parts are those that kube-apiserver
authorizes by. `is_canonical` is true only where the path, once its escapes are undone as
kube-apiserver undoes them, is the one way to write that, and undoing them again changes nothing: no
other reading of it is possible. Source: k8s.io/apiserver v0.36,
pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote

from edge_sidecars.apimachinery.go_format import parse_query
from edge_sidecars.apimachinery.lru import lru
from edge_sidecars.apimachinery.request.accept import Form as Form
from edge_sidecars.apimachinery.request.accept import Representation as Representation
from edge_sidecars.apimachinery.request.accept import representation as representation
from edge_sidecars.apimachinery.request.list_options import ListOptions as ListOptions
from edge_sidecars.apimachinery.request.list_options import VersionMatch as VersionMatch
from edge_sidecars.apimachinery.request.list_options import asks_for_watch, pinned_name
from edge_sidecars.apimachinery.request.list_options import get_version as get_version
from edge_sidecars.apimachinery.resources import NO_RESOURCE, ResourceName
from edge_sidecars.apimachinery.status import Refused as Refused

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
# Verbs that the path has. `watch` there is deprecated and has its own rules for selectors.
_PATH_VERBS = ("proxy", "watch")
# What follows /namespaces/NAME/ and is not a resource in that namespace.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
# Path segments of characters that need no escape: RFC 3986, 3.3, pchar without pct-encoded.
_PLAIN = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@-]+)+")
# Characters; of a name as long as it may be, percent-encoded, in each of a path's parts there is
# less.
LONGEST_PATH: Final = 8192
# Clients ask for the same few targets again and again, but for versions and time-outs in them.
_CACHE_SIZE = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInfo:
    """Of a request that is not for a resource only method, path, query and `verb` are set, the
    method in lower case. `path` is percent-decoded, but for one that is too long to be a
    resource's. `name` is that of the path or, of a list or watch, the one that its field selector
    pins. `parts` begin with the resource."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    verb: str
    is_resource: bool = False
    resource: ResourceName = NO_RESOURCE
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    parts: tuple[str, ...] = ()
    is_canonical: bool = False

    @staticmethod
    def parse(method: str, target: str) -> RequestInfo:
        """`target` as in the request's first line: path and query, percent-encoded.

        Bytes in it that are no UTF-8, as surrogates (PEP 383) or in percent, become U+FFFD.
        """
        return _parse(method, target)


@lru(_CACHE_SIZE)
def _parse(method: str, target: str) -> RequestInfo:
    text = target.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    raw_path, _, raw_query = text.partition("?")
    query = MappingProxyType(parse_query(raw_query))
    if len(raw_path) > LONGEST_PATH:
        return RequestInfo(method=method, path=raw_path, query=query, verb=method.lower())
    path = unquote(raw_path)
    outside = RequestInfo(method=method, path=path, query=query, verb=method.lower())
    prefix, *parts = path.strip("/").split("/")
    group, parts = (parts[0], parts[1:]) if prefix == "apis" and parts else ("", parts)
    if prefix not in ("api", "apis") or len(parts) < 2:
        return outside
    version, *parts = parts
    verb = _VERBS.get(method, "")
    is_verb_in_path = parts[0] in _PATH_VERBS
    if is_verb_in_path:
        verb, *parts = parts
    namespace, parts = _namespace(parts)
    plural, name, subresource = (*parts, "", "", "")[:3]
    resource = ResourceName(group, version, plural)
    if verb == "get" and not name:
        verb, name = "watch" if asks_for_watch(query) else "list", pinned_name(query)
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return replace(
        outside,
        verb=verb,
        is_resource=True,
        resource=resource,
        namespace=namespace,
        name=name,
        subresource="" if verb == "proxy" else subresource,
        parts=tuple(parts),
        is_canonical=not is_verb_in_path
        and _is_plain(path)
        # Else an escaped slash is part of a name to one reader, and ends it to another.
        and path.count("/") == raw_path.count("/")
        and path == _canonical_path(resource, namespace, parts),
    )


def _namespace(parts: list[str]) -> tuple[str, list[str]]:
    """The namespace, and the parts from the resource on. Namespaces are in themselves."""
    if len(parts) < 2 or parts[0] != "namespaces":
        return "", parts
    if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
        return parts[1], parts[2:]
    return parts[1], parts


def _is_plain(path: str) -> bool:
    """Whether no proxy on the way could rewrite it."""
    return _PLAIN.fullmatch(path) is not None and not {".", ".."} & set(path.split("/"))


def _canonical_path(resource: ResourceName, namespace: str, parts: Sequence[str]) -> str:
    within = f"/namespaces/{namespace}" if namespace and parts[0] != "namespaces" else ""
    return f"{resource.api_path}{within}/{'/'.join(parts)}"
