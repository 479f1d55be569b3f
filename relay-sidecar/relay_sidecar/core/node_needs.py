"""What kubelet needs for the pods of its node, read off the pods: pure.

Kubelet asks for most of it once, when a pod starts: what a relay does not hold of this when the
node reboots while it is offline, keeps pods from coming back.
Sources: k8s.io/kubernetes v1.36, pkg/api/pod/util.go (VisitPodSecretNames,
VisitPodConfigmapNames), pkg/volume/projected, pkg/volume/csi (csi_mounter.go:
podServiceAccountTokenAttrs; csi_attacher.go: getAttachmentName).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from edge_sidecars.apimachinery.objects import Key
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from relay_sidecar.core.token_request import BoundObjectReference, TokenRequestKey

PODS: Final = ResourceName("", "v1", "pods")
CLAIMS: Final = ResourceName("", "v1", "persistentvolumeclaims")
VOLUMES: Final = ResourceName("", "v1", "persistentvolumes")
CSI_NODES: Final = ResourceName("storage.k8s.io", "v1", "csinodes")
CSI_DRIVERS: Final = ResourceName("storage.k8s.io", "v1", "csidrivers")
ATTACHMENTS: Final = ResourceName("storage.k8s.io", "v1", "volumeattachments")
SECRETS: Final = ResourceName("", "v1", "secrets")
CONFIG_MAPS: Final = ResourceName("", "v1", "configmaps")

_ENDED: Final = ("Succeeded", "Failed")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


class ObjectName(NamedTuple):
    """One object of the API."""

    resource: ResourceName
    key: Key


class TokenWish(msgspec.Struct, frozen=True):
    """A token that a volume wants; `audience` "": the API server's own."""

    audience: str
    seconds: int | None


class PodNeeds(msgspec.Struct, frozen=True):
    """Of one pod that has not ended. `objects` are ConfigMaps, Secrets and claims; `drivers`: of
    its inline CSI volumes."""

    namespace: str
    name: str
    uid: str
    account: str
    objects: frozenset[ObjectName]
    tokens: frozenset[TokenWish]
    drivers: frozenset[str]

    def token_key(self, wish: TokenWish, content_type: str) -> TokenRequestKey:
        """As kubelet asks for it."""
        return TokenRequestKey(
            namespace=self.namespace,
            service_account=self.account,
            service_account_uid="",
            audiences=(wish.audience,) if wish.audience else (),
            expiration_seconds=wish.seconds,
            bound_object_ref=BoundObjectReference("Pod", "v1", self.name, self.uid),
            content_type=content_type,
        )


class VolumeNeeds(msgspec.Struct, frozen=True):
    """Of one PersistentVolume; `driver` and `handle` are "" where it is none of CSI."""

    secrets: frozenset[ObjectName] = frozenset()
    driver: str = ""
    handle: str = ""


class DriverFacts(msgspec.Struct, frozen=True):
    """Of one CSIDriver."""

    tokens: frozenset[TokenWish] = frozenset()
    attaches: bool = True


def pods_of(node: str) -> ListScope:
    """The stream in which kubelet, too, has the pods of the node."""
    return ListScope(PODS, fields=FieldSelector.parse(f"spec.nodeName={node}"))


def pod_needs(raw: bytes) -> PodNeeds | None:
    """None of a pod that has ended, or that cannot be read."""
    pod = _decoded(raw)
    meta, spec, status = (_map(pod.get(part)) for part in ("metadata", "spec", "status"))
    namespace, name, uid = (_text(meta.get(part)) for part in ("namespace", "name", "uid"))
    if not (namespace and name and uid) or status.get("phase") in _ENDED:
        return None
    objects: set[ObjectName] = set()
    tokens: set[TokenWish] = set()
    drivers: set[str] = set()

    def add(resource: ResourceName, named: object) -> None:
        if _text(named):
            objects.add(ObjectName(resource, (namespace, _text(named))))

    for reference in _maps(spec.get("imagePullSecrets")):
        add(SECRETS, reference.get("name"))
    for container in (it for part in _CONTAINERS for it in _maps(spec.get(part))):
        for source in _environment(container):
            for field, named in source.items():
                if field.startswith("configMap"):
                    add(CONFIG_MAPS, _map(named).get("name"))
                elif field.startswith("secret"):
                    add(SECRETS, _map(named).get("name"))
    for volume in _maps(spec.get("volumes")):
        add(CLAIMS, _map(volume.get("persistentVolumeClaim")).get("claimName"))
        if "ephemeral" in volume:
            add(CLAIMS, f"{name}-{_text(volume.get('name'))}")
        driver = _text(_map(volume.get("csi")).get("driver"))
        drivers |= {driver} if driver else set()
        sources = [volume, *_maps(_map(volume.get("projected")).get("sources"))]
        for source in sources:
            add(CONFIG_MAPS, _map(source.get("configMap")).get("name"))
            add(SECRETS, _map(source.get("secret")).get("name"))
            token = source.get("serviceAccountToken")
            if isinstance(token, dict):
                tokens.add(_wish(token))
        for named in _secret_names(volume):
            add(SECRETS, named)
    return PodNeeds(
        namespace,
        name,
        uid,
        _text(spec.get("serviceAccountName")) or "default",
        frozenset(objects),
        frozenset(tokens),
        frozenset(drivers),
    )


def volume_of(claim: bytes) -> ObjectName | None:
    """The PersistentVolume to which a claim is bound."""
    name = _text(_map(_decoded(claim).get("spec")).get("volumeName"))
    return ObjectName(VOLUMES, ("", name)) if name else None


def volume_needs(raw: bytes) -> VolumeNeeds:
    spec = _map(_decoded(raw).get("spec"))
    secrets = {
        ObjectName(SECRETS, (_text(reference.get("namespace")), _text(reference.get("name"))))
        for source in spec.values()
        for field, reference in _map(source).items()
        # Expansion and publication by the controller are none of the node's.
        if field.endswith("ecretRef") and not field.startswith("controller")
        if isinstance(reference, dict)
    }
    csi = _map(spec.get("csi"))
    return VolumeNeeds(
        frozenset(each for each in secrets if all(each.key)),
        _text(csi.get("driver")),
        _text(csi.get("volumeHandle")),
    )


def driver_facts(raw: bytes) -> DriverFacts:
    spec = _map(_decoded(raw).get("spec"))
    tokens = frozenset(map(_wish, _maps(spec.get("tokenRequests"))))
    return DriverFacts(tokens, spec.get("attachRequired") is not False)


def attachment_of(volume: VolumeNeeds, node: str) -> ObjectName:
    """Of a volume of CSI."""
    named = f"{volume.handle}{volume.driver}{node}".encode()
    return ObjectName(ATTACHMENTS, ("", f"csi-{hashlib.sha256(named).hexdigest()}"))


def _environment(container: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from _maps(container.get("envFrom"))
    for variable in _maps(container.get("env")):
        yield _map(variable.get("valueFrom"))


def _secret_names(volume: Mapping[str, Any]) -> Iterator[str]:
    """Of whatever kind of volume: its own, and those of its driver."""
    for source in volume.values():
        for field, value in _map(source).items():
            if field == "secretName":
                yield _text(value)
            elif field.endswith("ecretRef"):
                yield _text(_map(value).get("name"))


def _wish(token: Mapping[str, Any]) -> TokenWish:
    seconds = token.get("expirationSeconds")
    is_number = isinstance(seconds, int) and not isinstance(seconds, bool)
    return TokenWish(_text(token.get("audience")), seconds if is_number else None)


def _decoded(raw: bytes) -> Mapping[str, Any]:
    try:
        return _map(msgspec.json.decode(raw))
    except (msgspec.MsgspecError, RecursionError):
        return {}


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _maps(values: object) -> Iterable[Mapping[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
