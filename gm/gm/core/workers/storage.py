"""How a worker gets at datasets and models: environment, volumes, an init container to download.

Sedna's rules (pkg/globalmanager/runtime/storage_initializer_injector.go): a path without a scheme
is on the worker's node, its directory is mounted under /home/data; s3 and http are downloaded
before the worker begins where it asks for that, else it gets the URL itself. Secrets are referred
to, their content is never read.
Guarantees: a directory is mounted once, however many sources lie in it; two directories never share
a volume's name.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from gm.core.engine.plan import SECRET
from gm.core.kind import DataSource, HotUpdate, Mounted, Setting, Value
from gm.core.names import digest
from gm.core.tree import mapping, text

DOWNLOADED_SCHEMES: Final = ("s3", "http", "https")
_DATA: Final = "/home/data"
_DOWNLOADS: Final = "/downloads"
_VOLUME: Final = "sedna-storage-initializer"
_INDIRECT: Final = "@"
_INITIALIZER: Final = "kubeedge/sedna-storage-initializer:v0.3.0"
_HOT_UPDATE_HOST: Final = "/var/lib/sedna/model-hot-update"
_HOT_UPDATE: Final = "/model-hot-update"
_HOT_UPDATE_FILE: Final = "model_config.json"
_ILLEGAL: Final = re.compile(r"[^a-z0-9]+")
# Characters of a directory's name that a volume is named by, for people; the hash tells them apart.
_NAMED_BY: Final = 40


@dataclass(frozen=True, slots=True)
class WorkerStorage:
    """What a pod needs so that its worker finds everything.

    `initializer`: the init container, if anything is to be downloaded.
    """

    environment: tuple[Json, ...]
    volumes: tuple[Json, ...]
    mounts: tuple[Json, ...]
    initializer: Json | None


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one source is for the worker."""

    path: str
    source: DataSource
    is_downloaded: bool
    host_directory: str = ""
    mount_path: str = ""
    download_from: str = ""
    download_to: str = ""

    @property
    def secret(self) -> str:
        is_s3 = _split(self.source.url).scheme == "s3"
        return self.source.credential if is_s3 or self.source.is_indirect else ""


@dataclass(slots=True)
class _Given:
    """What comes together: values by name, volumes by name, mounts by path."""

    values: dict[str, str] = field(default_factory=dict)
    places: list[_Place] = field(default_factory=list)
    volumes: dict[str, Json] = field(default_factory=dict)
    mounts: dict[str, Json] = field(default_factory=dict)
    initial_mounts: dict[str, Json] = field(default_factory=dict)

    def take(self, setting: Setting, object_: Json) -> None:
        match setting:
            case Value(name, value):
                self.values[name] = value
            case Mounted(name, _, _):
                found = _places(setting)
                self.values[name] = ";".join(place.path for place in found)
                self.places.extend(found)
            case HotUpdate(poll_period):
                self._share_hot_update(object_)
                self.values |= {
                    "MODEL_HOT_UPDATE": "true",
                    "MODEL_POLL_PERIOD_SECONDS": str(poll_period),
                    "MODEL_HOT_UPDATE_CONFIG": posixpath.join(_HOT_UPDATE, _HOT_UPDATE_FILE),
                }

    def mount_host(self, place: _Place) -> None:
        """Once, for all that lies in one directory."""
        volume = _volume_name(place.host_directory)
        self.volumes[volume] = _host_volume(volume, place.host_directory, "Directory")
        mounts = self.initial_mounts if place.download_from else self.mounts
        mounts[place.mount_path] = {"name": volume, "mountPath": place.mount_path}

    def _share_hot_update(self, object_: Json) -> None:
        name = "sedna-model-hot-update-volume"
        directory = posixpath.dirname(hot_update_file(object_))
        self.volumes[name] = _host_volume(name, directory, "DirectoryOrCreate")
        self.mounts[_HOT_UPDATE] = {"name": name, "mountPath": _HOT_UPDATE}


def hot_update_file(object_: Json) -> str:
    """Where LC writes on the node what the worker reads. Lower case, as Sedna's."""
    parts = (text(object_, "metadata", "namespace"), text(object_, "kind"))
    name = text(object_, "metadata", "name")
    return posixpath.join(_HOT_UPDATE_HOST, *parts, name, _HOT_UPDATE_FILE).lower()


def storage(
    settings: Sequence[Setting], object_: Json, references: Mapping[ObjectKey, Json | None]
) -> WorkerStorage:
    """Of a worker with these settings."""
    given = _Given()
    for one in settings:
        given.take(one, object_)
    for place in given.places:
        if place.host_directory:
            given.mount_host(place)
    if any(path.startswith(_DATA) for path in given.mounts):
        given.values["DATA_PATH_PREFIX"] = _DATA
    initializer = _initializer(given, object_, references)
    if initializer is not None:
        given.volumes[_VOLUME] = {"name": _VOLUME, "emptyDir": {}}
        given.mounts[_DOWNLOADS] = {"name": _VOLUME, "mountPath": _DOWNLOADS, "readOnly": True}
    environment = [{"name": name, "value": value} for name, value in given.values.items()]
    own = [it.secret for it in given.places if not it.is_downloaded and it.secret]
    environment += _secret_environment(own, object_, references)
    return WorkerStorage(
        environment=tuple(environment),
        volumes=tuple(given.volumes.values()),
        mounts=tuple(given.mounts.values()),
        initializer=initializer,
    )


def credentials(settings: Sequence[Setting]) -> Iterator[tuple[str, ...]]:
    """Secrets that one container would have to be given: the worker's, the init container's. It is
    given the first one, for the names of the variables are the same."""
    places = [place for one in settings if isinstance(one, Mounted) for place in _places(one)]
    for own in (
        [it.secret for it in places if not it.is_downloaded],
        [it.secret for it in places if it.download_from],
    ):
        yield tuple(dict.fromkeys(filter(None, own)))


def host_directories(settings: Sequence[Setting]) -> frozenset[str]:
    """Of the worker's node, which a worker with these settings is given."""
    mounted = [one for one in settings if isinstance(one, Mounted)]
    found = (place.host_directory for one in mounted for place in _places(one))
    return frozenset(filter(None, found))


def _places(mounted: Mounted) -> list[_Place]:
    return [_place(source, mounted) for source in mounted.sources if source.url]


def _split(url: str) -> SplitResult:
    """What is no URL counts as a path: LC named it, and the job's directories do not hold it."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", url, "", "")


def _place(source: DataSource, mounted: Mounted) -> _Place:
    is_downloaded = mounted.is_downloaded
    parts = _split(source.url)
    if parts.scheme:
        if not is_downloaded or parts.scheme.lower() not in DOWNLOADED_SCHEMES:
            return _Place(source.url, source, is_downloaded)
        path = posixpath.normpath(posixpath.join(_DOWNLOADS, parts.netloc + parts.path))
        directory = posixpath.join(posixpath.dirname(path), "")
        return _Place(path, source, True, download_from=source.url, download_to=directory)
    path = posixpath.normpath(source.url)
    directory = path if mounted.is_directory else posixpath.dirname(path)
    inside = _DATA + path
    mount_path = posixpath.normpath(_DATA + directory)
    if not source.is_indirect:
        return _Place(inside, source, is_downloaded, directory, mount_path)
    downloaded = _DOWNLOADS + path
    target = posixpath.join(posixpath.dirname(downloaded), "")
    return _Place(downloaded, source, is_downloaded, directory, mount_path, inside, target)


def _initializer(
    given: _Given, object_: Json, references: Mapping[ObjectKey, Json | None]
) -> Json | None:
    arguments: list[str] = []
    for place in given.places:
        if place.download_from:
            mark = _INDIRECT if place.source.is_indirect else ""
            arguments += [place.download_from, mark + place.download_to]
    if not arguments:
        return None
    secrets = [place.secret for place in given.places if place.download_from and place.secret]
    environment = _secret_environment(secrets, object_, references)
    environment.append({"name": "INDIRECT_URL_MARK", "value": _INDIRECT})
    downloads = {"name": _VOLUME, "mountPath": _DOWNLOADS}
    return {
        "name": "storage-initializer",
        "image": _INITIALIZER,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [downloads, *given.initial_mounts.values()],
        "env": environment,
    }


def _secret_environment(
    secrets: Sequence[str], object_: Json, references: Mapping[ObjectKey, Json | None]
) -> list[Json]:
    """What the S3 client of Sedna's library reads, of the first one; the endpoint is in the
    Secret's annotations."""
    if not secrets:
        return []
    name = secrets[0]
    key = ObjectKey(SECRET, text(object_, "metadata", "namespace"), name)
    annotations = mapping(references.get(key), "metadata", "annotations")
    environment: list[Json] = []
    if endpoint := text(annotations, "s3-endpoint"):
        scheme = "http" if text(annotations, "s3-usehttps") == "0" else "https"
        url = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
        environment.append({"name": "S3_ENDPOINT_URL", "value": url})
    return environment + [
        {"name": field, "valueFrom": {"secretKeyRef": {"name": name, "key": field}}}
        for field in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
    ]


def _host_volume(name: str, directory: str, type_: str) -> Json:
    return {"name": name, "hostPath": {"path": directory, "type": type_}}


def _volume_name(directory: str) -> str:
    named = _ILLEGAL.sub("-", directory.lower()).strip("-")[:_NAMED_BY].strip("-")
    return f"{named or 'root'}-{digest(directory)}"
