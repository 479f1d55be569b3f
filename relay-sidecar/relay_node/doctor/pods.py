"""What the pods of a node need in order to start again, read from the API's objects.

Pure. Fields and defaults: k8s.io/api core/v1 (types.go); what kubelet asks for a projected token:
pkg/volume/projected/projected.go.
"""

import json
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

# Kubelet's name for a pod that it did not get from the API server (pkg/kubelet/types).
MIRROR: Final = "kubernetes.io/config.mirror"
FINISHED: Final = frozenset({"Succeeded", "Failed"})
# reference.familiarizeName of distribution/reference, backwards.
_HUB: Final = "docker.io"
_LIBRARY: Final = "library"


class _PodStruct(msgspec.Struct, rename="camel"):
    pass


class Reference(_PodStruct):
    """To a Secret or a ConfigMap, or to a key of one."""

    name: str = ""
    optional: bool = False


class Token(_PodStruct):
    audience: str = ""
    expiration_seconds: int = 3600


class _Source(_PodStruct):
    service_account_token: Token | None = None
    secret: Reference | None = None
    config_map: Reference | None = None
    cluster_trust_bundle: dict[str, Any] | None = None
    pod_certificate: dict[str, Any] | None = None


class _Projected(_PodStruct):
    sources: tuple[_Source, ...] | None = None


class _SecretVolume(_PodStruct):
    secret_name: str = ""
    optional: bool = False


class HostPath(_PodStruct):
    path: str = ""
    type: str = ""


class _Claim(_PodStruct):
    claim_name: str = ""


class _CsiVolume(_PodStruct):
    driver: str = ""
    node_publish_secret_ref: Reference | None = None


class Volume(_PodStruct):
    name: str = ""
    secret: _SecretVolume | None = None
    config_map: Reference | None = None
    projected: _Projected | None = None
    host_path: HostPath | None = None
    persistent_volume_claim: _Claim | None = None
    ephemeral: dict[str, Any] | None = None
    csi: _CsiVolume | None = None
    # Fetched over a network.
    nfs: dict[str, Any] | None = None
    iscsi: dict[str, Any] | None = None
    cephfs: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None

    @property
    def is_remote(self) -> bool:
        return any((self.nfs, self.iscsi, self.cephfs, self.rbd))


class _Mount(_PodStruct):
    name: str = ""
    mount_path: str = ""
    read_only: bool = False


class _Port(_PodStruct):
    container_port: int = 0


class _ValueFrom(_PodStruct):
    secret_key_ref: Reference | None = None
    config_map_key_ref: Reference | None = None


class _Variable(_PodStruct):
    value_from: _ValueFrom | None = None


class _Variables(_PodStruct):
    secret_ref: Reference | None = None
    config_map_ref: Reference | None = None


class Container(_PodStruct):
    name: str
    image: str = ""
    image_pull_policy: str = ""
    env: tuple[_Variable, ...] = ()
    env_from: tuple[_Variables, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    lifecycle: dict[str, Any] | None = None
    ports: tuple[_Port, ...] = ()
    volume_mounts: tuple[_Mount, ...] = ()

    def files_in(self, folder: str) -> list[str]:
        """Which its command, arguments and hooks name there."""
        script = json.dumps([*self.command, *self.args, self.lifecycle])
        return re.findall(rf"{re.escape(folder)}/[\w.-]+", script)


class _PodSpec(_PodStruct):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    service_account_name: str = "default"
    host_network: bool = False
    image_pull_secrets: tuple[Reference, ...] = ()
    resource_claims: tuple[dict[str, Any], ...] | None = None
    dns_policy: str = "ClusterFirst"


class _ContainerStatus(_PodStruct):
    name: str
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")


class _Address(_PodStruct):
    ip: str = ""


class _PodStatus(_PodStruct):
    phase: str = ""
    pod_ips: tuple[_Address, ...] = msgspec.field(default=(), name="podIPs")
    container_statuses: tuple[_ContainerStatus, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()


class _PodMetadata(_PodStruct):
    name: str
    namespace: str
    uid: str
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class Pod(_PodStruct):
    metadata: _PodMetadata
    spec: _PodSpec
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    def __str__(self) -> str:
        return f"pod {self.metadata.namespace}/{self.metadata.name}"

    @property
    def is_static(self) -> bool:
        """Kubelet has it from a file, and starts it without the API."""
        return MIRROR in (self.metadata.annotations or {})

    @property
    def is_over(self) -> bool:
        """Kubelet does not start it any more."""
        is_going = self.metadata.deletion_timestamp is not None
        return is_going or self.status.phase in FINISHED

    @property
    def starts_again(self) -> bool:
        """Kubelet starts it after a reboot, and needs the API for that."""
        return not (self.is_over or self.is_static)

    @property
    def account(self) -> str:
        return f"{self.metadata.namespace}:{self.spec.service_account_name}"

    @property
    def uses_cluster_dns(self) -> bool:
        policy = self.spec.dns_policy
        is_first = policy == "ClusterFirst" and not self.spec.host_network
        return is_first or policy == "ClusterFirstWithHostNet"

    @property
    def host_paths(self) -> set[str]:
        """Folders and files of the node that it mounts."""
        volumes = self.spec.volumes
        return {it.host_path.path.rstrip("/") for it in volumes if it.host_path is not None}

    def claims(self) -> list[str]:
        """Names of its PersistentVolumeClaims."""
        found = []
        for volume in self.spec.volumes:
            if volume.persistent_volume_claim is not None:
                found.append(volume.persistent_volume_claim.claim_name)
            elif volume.ephemeral is not None:
                found.append(f"{self.metadata.name}-{volume.name}")
        return found

    def writes(self, folder: str, name: str) -> str:
        """Whether one of its containers puts a file of that name (a glob) into the node's folder as
        it starts: "yes", "perhaps" where it may write there and does not name what, else ""."""
        found = ""
        for container, place in self._writers(folder):
            named = {word.rpartition("/")[2] for word in container.files_in(place)}
            if any(fnmatchcase(each, name) for each in named):
                return "yes"
            found = found if named else "perhaps"
        return found

    def _writers(self, folder: str) -> Iterator[tuple[Container, str]]:
        """Containers that may write into the node's folder, and where they have it."""
        roots = {
            volume.name: volume.host_path.path.rstrip("/")
            for volume in self.spec.volumes
            if volume.host_path is not None
        }
        for container in self.containers:
            for mount in container.volume_mounts:
                root = roots.get(mount.name)
                if root is not None and not mount.read_only and f"{folder}/".startswith(f"{root}/"):
                    yield container, mount.mount_path.rstrip("/") + folder.removeprefix(root)

    @property
    def addresses(self) -> frozenset[str]:
        """Of its own network; none where it has the node's, or no sandbox yet."""
        if self.spec.host_network:
            return frozenset()
        return frozenset(each.ip for each in self.status.pod_ips if each.ip)

    @property
    def containers(self) -> list[Container]:
        return [*self.spec.init_containers, *self.spec.containers]

    def tokens(self) -> Iterator[Token]:
        for source in self._sources():
            if source.service_account_token is not None:
                yield source.service_account_token

    def secrets(self) -> dict[str, bool]:
        """Names of the Secrets that kubelet asks for, and whether it starts without: also of those
        it has to know that they do not exist."""
        volumes = [it.secret for it in self.spec.volumes if it.secret is not None]
        found: list[Reference | None] = [source.secret for source in self._sources()]
        found += [Reference(it.secret_name, it.optional) for it in volumes]
        for container in self.containers:
            found += [it.value_from.secret_key_ref for it in container.env if it.value_from]
            found += [it.secret_ref for it in container.env_from]
        return _needed(found)

    def config_maps(self) -> dict[str, bool]:
        """As `secrets`, of ConfigMaps."""
        found = [source.config_map for source in self._sources()]
        found += [volume.config_map for volume in self.spec.volumes]
        for container in self.containers:
            found += [it.value_from.config_map_key_ref for it in container.env if it.value_from]
            found += [it.config_map_ref for it in container.env_from]
        return _needed(found)

    def names_of_image(self, container: Container) -> set[str]:
        """As the node may call it: as it is named in the pod, and as the runtime resolved that."""
        statuses = (*self.status.init_container_statuses, *self.status.container_statuses)
        own = [each for each in statuses if each.name == container.name]
        named = (container.image, *(name for each in own for name in (each.image, each.image_id)))
        return {image_name(name) for name in named if name}

    def has_source(self, kind: str) -> bool:
        """Of a projected volume, by its field: `pod_certificate` or `cluster_trust_bundle`."""
        return any(getattr(source, kind) is not None for source in self._sources())

    def drivers(self) -> set[str]:
        """CSI drivers of its own volumes."""
        return {it.csi.driver for it in self.spec.volumes if it.csi is not None}

    def _sources(self) -> Iterator[_Source]:
        for volume in self.spec.volumes:
            if volume.projected is not None:
                yield from volume.projected.sources or ()


def _needed(found: Iterable[Reference | None]) -> dict[str, bool]:
    needed: dict[str, bool] = {}
    for each in found:
        if each is not None:
            needed[each.name] = each.optional and needed.get(each.name, True)
    return needed


class _PodList(_PodStruct):
    items: list[Pod]


class _Image(_PodStruct):
    names: tuple[str, ...] | None = None


class _NodeStatus(_PodStruct):
    images: tuple[_Image, ...] = ()


class _NodeDocument(_PodStruct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


def pods_of(body: bytes) -> list[Pod]:
    """Of a PodList in JSON. Raises ValueError."""
    return msgspec.json.decode(body, type=_PodList).items


def images_of(body: bytes, *, most: int = 50) -> frozenset[str] | None:
    """Names of the images on a Node, in JSON; None where not all are listed: kubelet reports the
    `most` largest (nodeStatusMaxImages). Raises ValueError."""
    images = msgspec.json.decode(body, type=_NodeDocument).status.images
    if not images or len(images) >= most:
        return None
    return frozenset(image_name(name) for name in _names(images))


def _names(images: Iterable[_Image]) -> Iterator[str]:
    for image in images:
        yield from image.names or ()


def image_name(name: str) -> str:
    """With registry, and with a digest or else a tag: distribution/reference, ParseDockerRef."""
    # dockershim's and cri-dockerd's image ids: docker-pullable://NAME@DIGEST.
    rest, _, digest = name.rpartition("://")[2].partition("@")
    folder, _, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    registry, _, _ = folder.partition("/")
    if not folder:
        folder = f"{_HUB}/{_LIBRARY}"
    elif not ("." in registry or ":" in registry or registry == "localhost"):
        folder = f"{_HUB}/{folder}"
    return f"{folder}/{last}@{digest}" if digest else f"{folder}/{last}:{tag or 'latest'}"
