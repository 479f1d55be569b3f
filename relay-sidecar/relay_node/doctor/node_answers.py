"""What the API says of a node, asked as kubelet asks: by way of the relay.

Guarantee: of what pods need by name only that is asked for which the relay keeps already: a
question would teach it what it lacks.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from edge_sidecars.kubeapi import Unreachable
from relay_node.doctor.facts import Names, Relay
from relay_node.doctor.pods import Pod, images_of, pods_of
from relay_node.doctor.unknown import Unknown
from relay_node.kubelet_api import PODS, KubeletApi, NodeAnswer

_SERVICES: Final = "/api/v1/services?fieldSelector=spec.clusterIP%21%3DNone"
_SLICES: Final = "/apis/discovery.k8s.io/v1/endpointslices"
_OF_SERVICE: Final = "kubernetes.io/service-name"
_CLAIMS: Final = "persistentvolumeclaims.v1."


@dataclass(frozen=True, kw_only=True)
class NodeAnswers:
    """As `Facts` has them."""

    pods: Sequence[Pod] | Unknown
    names: Mapping[str, Names] | Unknown = field(default_factory=dict)
    volumes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    images: frozenset[str] | None = None
    upstream_time: float | None = None


async def ask_all(
    api: KubeletApi, *, node: str, relay: Relay | Unknown, resolvers: Sequence[str]
) -> NodeAnswers:
    """`resolvers`: addresses of which it is to be known what Service they are."""
    try:
        async with api:
            review = await api.who_am_i()
            pods = _pods(await api.ask("GET", PODS + node))
            own = await api.ask("GET", f"/api/v1/nodes/{node}")
            return NodeAnswers(
                pods=pods,
                names=await _names(api, node) if resolvers else {},
                volumes=await _volumes(api, pods, relay),
                images=images_of(own.body) if own.is_success else None,
                upstream_time=review.date if review.is_success and review.is_live else None,
            )
    except Unreachable as error:
        return NodeAnswers(pods=Unknown(str(error)), names=Unknown(str(error)))


def _pods(answer: NodeAnswer) -> Sequence[Pod] | Unknown:
    return pods_of(answer.body) if answer.is_success else _unknown(answer)


def _unknown(answer: NodeAnswer) -> Unknown:
    try:
        why = json.loads(answer.body)["message"]
    except (ValueError, TypeError, KeyError):
        why = "no Status"
    return Unknown(f"{answer.status}: {why}")


async def _names(api: KubeletApi, node: str) -> Mapping[str, Names] | Unknown:
    services, slices = await api.ask("GET", _SERVICES), await api.ask("GET", _SLICES)
    for answer in (services, slices):
        if not answer.is_success:
            return _unknown(answer)
    places = _places(json.loads(slices.body)["items"])
    found = {}
    for service in json.loads(services.body)["items"]:
        meta, spec = service["metadata"], service["spec"]
        nodes = places.get((meta["namespace"], meta["name"]), Counter())
        for address in spec.get("clusterIPs") or [spec.get("clusterIP", "")]:
            found[address] = Names(
                service=f"{meta['namespace']}/{meta['name']}",
                here=nodes[node],
                elsewhere=nodes.total() - nodes[node],
            )
    return found


def _places(slices: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], Counter[str]]:
    """Nodes of endpoints, by Service."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for each in slices:
        meta = each["metadata"]
        key = meta["namespace"], (meta.get("labels") or {}).get(_OF_SERVICE, "")
        nodes = found.setdefault(key, Counter())
        nodes.update(endpoint.get("nodeName", "") for endpoint in each.get("endpoints") or ())
    return found


async def _volumes(
    api: KubeletApi, pods: Sequence[Pod] | Unknown, relay: Relay | Unknown
) -> dict[tuple[str, str], str]:
    if isinstance(pods, Unknown) or isinstance(relay, Unknown):
        return {}
    found = {}
    for namespace, claim in set(_claims(pods)):
        if relay.keeps(_CLAIMS, namespace=namespace, name=claim):
            path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
            answer = await api.ask("GET", path)
            if answer.is_success:
                spec = json.loads(answer.body).get("spec") or {}
                found[namespace, claim] = str(spec.get("volumeName", ""))
    return found


def _claims(pods: Sequence[Pod]) -> Iterator[tuple[str, str]]:
    for pod in pods:
        if pod.starts_again:
            yield from ((pod.metadata.namespace, claim) for claim in pod.claims())
