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
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from gm.core.kind import HotUpdate, Mounted, Setting, Source, Value
from gm.core.names import digest
from gm.core.tree import text
from gm.core.view import SECRET
from sedna_api.core.document import Json, ObjectKey

DOWNLOADED_SCHEMES: Final = ("s3", "http", "https")
_DATA: Final = "/home/data"
_DOWNLOADS: Final = "/downloads"
_INDIRECT: Final = "@"
_INITIALIZER: Final = "kubeedge/sedna-storage-initializer:v0.3.0"
_HOT_UPDATE_HOST: Final = "/var/lib/sedna/model-hot-update"
_HOT_UPDATE: Final = "/model-hot-update"
_HOT_UPDATE_FILE: Final = "model_config.json"
_ILLEGAL: Final = re.compile(r"[^a-z0-9]+")
# Characters of a directory's name that a volume is named by, for people; the hash tells them apart.
_NAMED_BY: Final = 40


@dataclass(frozen=True, slots=True)
class Storage:
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
    source: Source
    host_directory: str = ""
    mount_path: str = ""
    download_from: str = ""
    download_to: str = ""

    @property
    def secret(self) -> str:
        is_s3 = urlsplit(self.source.url).scheme == "s3"
        return self.source.credential if is_s3 or self.source.is_indirect else ""


def hot_update_file(object_: Json) -> str:
    """Where LC writes on the node what the worker reads. Lower case, as Sedna's."""
    parts = (text(object_, "metadata", "namespace"), text(object_, "kind"))
    name = text(object_, "metadata", "name")
    return posixpath.join(_HOT_UPDATE_HOST, *parts, name, _HOT_UPDATE_FILE).lower()


def storage(
    settings: Sequence[Setting], object_: Json, references: Mapping[ObjectKey, Json | None]
) -> Storage:
    """Of a worker with these settings."""
    values: dict[str, str] = {}
    places: list[tuple[_Place, bool]] = []
    volumes: dict[str, Json] = {}
    mounts: dict[str, Json] = {}
    for one in settings:
        match one:
            case Value(name, value):
                values[name] = value
            case Mounted(name, sources, is_downloaded):
                found = [_place(source, is_downloaded) for source in sources if source.url]
                values[name] = ";".join(place.path for place in found)
                places.extend((place, is_downloaded) for place in found)
            case HotUpdate(poll_period):
                _share_hot_update(object_, volumes, mounts)
                values |= {
                    "MODEL_HOT_UPDATE": "true",
                    "MODEL_POLL_PERIOD_SECONDS": str(poll_period),
                    "MODEL_HOT_UPDATE_CONFIG": posixpath.join(_HOT_UPDATE, _HOT_UPDATE_FILE),
                }
    initial_mounts: dict[str, Json] = {}
    for place, _ in places:
        if place.host_directory:
            volume = _volume_name(place.host_directory)
            volumes[volume] = _host_volume(volume, place.host_directory, "Directory")
            mount = {"name": volume, "mountPath": place.mount_path}
            (initial_mounts if place.download_from else mounts)[place.mount_path] = mount
    if any(path.startswith(_DATA) for path in mounts):
        values["DATA_PATH_PREFIX"] = _DATA
    own = [place.secret for place, is_downloaded in places if not is_downloaded and place.secret]
    initializer = _initializer([place for place, _ in places], initial_mounts, object_, references)
    if initializer is not None:
        volumes["sedna-storage-initializer"] = {
            "name": "sedna-storage-initializer",
            "emptyDir": {},
        }
        mounts[_DOWNLOADS] = {
            "name": "sedna-storage-initializer",
            "mountPath": _DOWNLOADS,
            "readOnly": True,
        }
    environment = [{"name": name, "value": value} for name, value in values.items()]
    environment += _secret_environment(own[:1], object_, references)
    return Storage(
        environment=tuple(environment),
        volumes=tuple(volumes.values()),
        mounts=tuple(mounts.values()),
        initializer=initializer,
    )


def credentials(settings: Sequence[Setting]) -> Iterator[tuple[str, ...]]:
    """Secrets that one container would have to be given: the worker's, the init container's. It is
    given the first one, for the names of the variables are the same."""
    places = [
        (_place(source, one.is_downloaded), one.is_downloaded)
        for one in settings
        if isinstance(one, Mounted)
        for source in one.sources
        if source.url
    ]
    for own in (
        [it.secret for it, downloaded in places if not downloaded],
        [it.secret for it, _ in places if it.download_from],
    ):
        yield tuple(dict.fromkeys(filter(None, own)))


def _place(source: Source, is_downloaded: bool) -> _Place:
    parts = urlsplit(source.url)
    if parts.scheme:
        if not is_downloaded or parts.scheme.lower() not in DOWNLOADED_SCHEMES:
            return _Place(source.url, source)
        path = posixpath.normpath(posixpath.join(_DOWNLOADS, parts.netloc + parts.path))
        directory = posixpath.join(posixpath.dirname(path), "")
        return _Place(path, source, download_from=source.url, download_to=directory)
    path = posixpath.normpath(source.url)
    directory = posixpath.dirname(path)
    inside = _DATA + path
    mount_path = posixpath.normpath(_DATA + directory)
    if not source.is_indirect:
        return _Place(inside, source, directory, mount_path)
    downloaded = _DOWNLOADS + path
    target = posixpath.join(posixpath.dirname(downloaded), "")
    return _Place(downloaded, source, directory, mount_path, inside, target)


def _initializer(
    places: Sequence[_Place],
    mounts: Mapping[str, Json],
    object_: Json,
    references: Mapping[ObjectKey, Json | None],
) -> Json | None:
    arguments: list[str] = []
    for place in places:
        if place.download_from:
            mark = _INDIRECT if place.source.is_indirect else ""
            arguments += [place.download_from, mark + place.download_to]
    if not arguments:
        return None
    secrets = [place.secret for place in places if place.download_from and place.secret]
    environment = _secret_environment(secrets[:1], object_, references)
    environment.append({"name": "INDIRECT_URL_MARK", "value": _INDIRECT})
    downloads = {"name": "sedna-storage-initializer", "mountPath": _DOWNLOADS}
    return {
        "name": "storage-initializer",
        "image": _INITIALIZER,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [downloads, *mounts.values()],
        "env": environment,
    }


def _secret_environment(
    secrets: Sequence[str], object_: Json, references: Mapping[ObjectKey, Json | None]
) -> list[Json]:
    """What the S3 client of Sedna's library reads; the endpoint is in the Secret's annotations."""
    environment: list[Json] = []
    for name in secrets:
        key = ObjectKey(SECRET, text(object_, "metadata", "namespace"), name)
        secret = references.get(key)
        endpoint = text(secret, "metadata", "annotations", "s3-endpoint")
        if endpoint:
            is_plain = text(secret, "metadata", "annotations", "s3-usehttps") == "0"
            scheme = "http" if is_plain else "https"
            url = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
            environment.append({"name": "S3_ENDPOINT_URL", "value": url})
        environment += [
            {"name": field, "valueFrom": {"secretKeyRef": {"name": name, "key": field}}}
            for field in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
        ]
    return environment


def _share_hot_update(object_: Json, volumes: dict[str, Json], mounts: dict[str, Json]) -> None:
    name = "sedna-model-hot-update-volume"
    directory = posixpath.dirname(hot_update_file(object_))
    volumes[name] = _host_volume(name, directory, "DirectoryOrCreate")
    mounts[_HOT_UPDATE] = {"name": name, "mountPath": _HOT_UPDATE}


def _host_volume(name: str, directory: str, type_: str) -> Json:
    return {"name": name, "hostPath": {"path": directory, "type": type_}}


def _volume_name(directory: str) -> str:
    named = _ILLEGAL.sub("-", directory.lower()).strip("-")[:_NAMED_BY].strip("-")
    return f"{named or 'root'}-{digest(directory)}"
