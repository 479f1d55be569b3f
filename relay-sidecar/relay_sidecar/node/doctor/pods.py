"""What the pods of a node need in order to start again, read from the API's objects.

Pure. Fields and defaults: k8s.io/api core/v1 (types.go); what kubelet asks for a projected token:
pkg/volume/projected/projected.go.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

# Kubelet's name for a pod that it did not get from the API server (pkg/kubelet/types).
MIRROR: Final = "kubernetes.io/config.mirror"
FINISHED: Final = frozenset({"Succeeded", "Failed"})
# reference.familiarizeName of distribution/reference, backwards.
_HUB: Final = "docker.io"
_LIBRARY: Final = "library"


class _Struct(msgspec.Struct, rename="camel"):
    pass


class Reference(_Struct):
    """To a Secret or a ConfigMap, or to a key of one."""

    name: str = ""
    optional: bool = False


class Token(_Struct):
    audience: str = ""
    expiration_seconds: int = 3600


class _Source(_Struct):
    service_account_token: Token | None = None
    secret: Reference | None = None
    config_map: Reference | None = None


class _Projected(_Struct):
    sources: tuple[_Source, ...] | None = None


class _SecretVolume(_Struct):
    secret_name: str = ""
    optional: bool = False


class _Volume(_Struct):
    secret: _SecretVolume | None = None
    config_map: Reference | None = None
    projected: _Projected | None = None


class _ValueFrom(_Struct):
    secret_key_ref: Reference | None = None
    config_map_key_ref: Reference | None = None


class _Variable(_Struct):
    value_from: _ValueFrom | None = None


class _Variables(_Struct):
    secret_ref: Reference | None = None
    config_map_ref: Reference | None = None


class Container(_Struct):
    name: str
    image: str = ""
    image_pull_policy: str = ""
    env: tuple[_Variable, ...] = ()
    env_from: tuple[_Variables, ...] = ()


class _Spec(_Struct):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[_Volume, ...] = ()
    service_account_name: str = "default"
    host_network: bool = False


class _ContainerStatus(_Struct):
    name: str
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")


class _Address(_Struct):
    ip: str = ""


class _Status(_Struct):
    phase: str = ""
    pod_ips: tuple[_Address, ...] = msgspec.field(default=(), name="podIPs")
    container_statuses: tuple[_ContainerStatus, ...] = ()
    init_container_statuses: tuple[_ContainerStatus, ...] = ()


class _Metadata(_Struct):
    name: str
    namespace: str
    uid: str
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class Pod(_Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)

    def __str__(self) -> str:
        return f"pod {self.metadata.namespace}/{self.metadata.name}"

    @property
    def starts_again(self) -> bool:
        """Kubelet starts it after a reboot, and needs the API for that."""
        is_going = self.metadata.deletion_timestamp is not None
        is_mirror = MIRROR in (self.metadata.annotations or {})
        return not (is_going or is_mirror or self.status.phase in FINISHED)

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

    def secrets(self) -> set[str]:
        """Names of the Secrets without which it does not start."""
        volumes = [it.secret for it in self.spec.volumes if it.secret is not None]
        found: list[Reference | None] = [source.secret for source in self._sources()]
        found += [Reference(it.secret_name, it.optional) for it in volumes]
        for container in self.containers:
            found += [it.value_from.secret_key_ref for it in container.env if it.value_from]
            found += [it.secret_ref for it in container.env_from]
        return _needed(found)

    def config_maps(self) -> set[str]:
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

    def _sources(self) -> Iterator[_Source]:
        for volume in self.spec.volumes:
            if volume.projected is not None:
                yield from volume.projected.sources or ()


def _needed(found: Iterable[Reference | None]) -> set[str]:
    return {each.name for each in found if each is not None and not each.optional}


class _PodList(_Struct):
    items: list[Pod]


class _Image(_Struct):
    names: tuple[str, ...] | None = None


class _NodeStatus(_Struct):
    images: tuple[_Image, ...] = ()


class _Node(_Struct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


def pods_of(body: bytes) -> list[Pod]:
    """Of a PodList in JSON. Raises ValueError."""
    return msgspec.json.decode(body, type=_PodList).items


def images_of(body: bytes, *, most: int = 50) -> frozenset[str] | None:
    """Names of the images on a Node, in JSON; None where not all are listed: kubelet reports the
    `most` largest (nodeStatusMaxImages). Raises ValueError."""
    images = msgspec.json.decode(body, type=_Node).status.images
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
