"""Where the file of a Dataset or a Model is, or a job's output directory: parsed once, for all.

A path on the node, or an s3, http or https URL. Guarantees: whatever the text is, the result is a
`FileUrl` or `InvalidUrl`; what is a `FileUrl` can be opened as a path or be asked for without
another look at its syntax. `is_below` compares names only: links are the file system's.
"""

import posixpath
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

REMOTE_SCHEMES: Final = ("s3", "http", "https")
# Bytes: PATH_MAX and NAME_MAX of Linux; a URL of S3 has at most 1024 of key.
MAX_URL: Final = 4096
MAX_PART: Final = 255
MAX_PORT: Final = 65535
# Where downloads lie in a worker's pod.
DOWNLOADS: Final = "/downloads"
REMEDY: Final = "give an absolute path on the node, or an s3, http or https URL"

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# What neither a path nor a URL has: controls (RFC 3986, 2) and halves of characters.
_ILLEGAL: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, with the letters of
# older buckets.
_BUCKET: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,253}[A-Za-z0-9])?", re.ASCII)
# RFC 952 and 1123, and the underscore of names of services.
_HOST: Final = re.compile(r"[a-z0-9_]([-a-z0-9_.]*[a-z0-9_])?\.?", re.ASCII)
_ADDRESS: Final = re.compile(r"[0-9a-f:.]+", re.ASCII)


class InvalidUrl(ValueError):
    """Why a text is none; without the text's field, which the caller names."""


@dataclass(frozen=True, slots=True)
class FileUrl:
    """`scheme` s3, http or https, "" for a path on the node; `place` the bucket, or the host with
    its port; `path` absolute, "" where a URL has none."""

    text: str
    scheme: str
    place: str
    path: str

    @property
    def is_remote(self) -> bool:
        return bool(self.scheme)


def parse_url(text: str) -> FileUrl:
    """Raises `InvalidUrl`."""
    if _ILLEGAL.search(text):
        raise InvalidUrl(f"{text!r:.80} has a control character, or half of one")
    if len(text.encode()) > MAX_URL:
        raise InvalidUrl(f"{text!r:.80} is longer than {MAX_URL} bytes")
    scheme = _SCHEME.match(text)
    return _remote(text, scheme[1].lower()) if scheme else _local(text)


def is_remote(text: str) -> bool:
    """Whether it begins as a URL that is fetched; whatever the rest is."""
    return text.partition(":")[0].lower() in REMOTE_SCHEMES and ":" in text


def is_below(directory: str, text: str) -> bool:
    """Whether a URL or path names something inside a directory, by its name. Never for what is no
    URL, nor for the directory itself."""
    try:
        above, inner = parse_url(directory), parse_url(text)
    except InvalidUrl:
        return False
    if (above.scheme, above.place) != (inner.scheme, inner.place):
        return False
    base, parts = _parts(above), _parts(inner)
    return len(parts) > len(base) and parts[: len(base)] == base and ".." not in parts


def places_inside(text: str) -> frozenset[str]:
    """By which names a worker may know a file that it was given: as the node does, and where a
    download lies in its pod (Sedna's storage initializer)."""
    try:
        url = parse_url(text)
    except InvalidUrl:
        return frozenset()
    downloaded = posixpath.normpath(f"{DOWNLOADS}/{url.place}{url.path}")
    return frozenset({text, downloaded} if url.is_remote else {text})


def _local(text: str) -> FileUrl:
    parts = text.split("/")
    if not text.startswith("/") or ".." in parts:
        raise InvalidUrl(f"{text!r:.80} is no absolute path")
    if any(len(each.encode()) > MAX_PART for each in parts):
        raise InvalidUrl(f"{text!r:.80} has a name of more than {MAX_PART} bytes")
    return FileUrl(text, "", "", text)


def _remote(text: str, scheme: str) -> FileUrl:
    if scheme not in REMOTE_SCHEMES:
        raise InvalidUrl(f"nothing is known about {scheme:.40} URLs")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidUrl(f"{text!r:.80} is no URL: {error}") from error
    if not parts.netloc or not text[len(scheme) + 1 :].startswith("//"):
        raise InvalidUrl(f"{text!r:.80} names no host")
    if scheme == "s3":
        if not _BUCKET.fullmatch(parts.netloc):
            raise InvalidUrl(f"{parts.netloc!r:.80} is no name of a bucket")
        return FileUrl(text, scheme, parts.netloc, parts.path)
    if port is not None and not 0 < port <= MAX_PORT:
        raise InvalidUrl(f"{text!r:.80}: its port is not from 1 to {MAX_PORT}")
    if not _is_host(host):
        raise InvalidUrl(f"{text!r:.80}: {host!r:.60} is no host")
    return FileUrl(text, scheme, parts.netloc.lower(), parts.path)


def _is_host(host: str) -> bool:
    """Whether it can be looked up, or is an address."""
    if ":" in host:
        return _ADDRESS.fullmatch(host) is not None
    try:
        ascii_ = host.encode("idna").decode()
    except UnicodeError:
        return False
    return _HOST.fullmatch(ascii_.lower()) is not None


def _parts(url: FileUrl) -> list[str]:
    """The names of its path; of http, where a name may be written in several ways, decoded."""
    path = unquote(url.path) if url.scheme.startswith("http") else url.path
    return [each for each in path.split("/") if each not in ("", ".")]
