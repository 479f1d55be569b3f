"""An image as one file that `docker load`, `ctr images import`, podman and skopeo take. **Pure.**

An OCI image layout (https://github.com/opencontainers/image-spec, version 1.1) in a tar. Beside it
is the `manifest.json` of `docker save`, which engines with Docker's own store of images read.
Guarantees: the same image makes the same bytes.
"""

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

_OCI: Final = "application/vnd.oci.image"
# Of arm64: https://github.com/containerd/platforms, for which v8 is what all images mean.
_VARIANTS: Final = {"arm64": {"variant": "v8"}}


@dataclass(frozen=True)
class Layer:
    """`digest` is of the packed bytes, `plain` of what is unpacked."""

    content: bytes
    digest: str
    plain: str
    what: str


@dataclass(frozen=True)
class Archive:
    """`digest`: of the image's manifest, by which a registry knows it."""

    content: bytes
    digest: str


def archive(
    name: str, *, architecture: str, config: dict[str, Any], layers: Sequence[Layer], created: int
) -> Archive:
    """`name`: with registry and tag. `created`: in Unix time."""
    when = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    platform = {"architecture": architecture, "os": "linux", **_VARIANTS.get(architecture, {})}
    described = {
        "created": when,
        **platform,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [it.plain for it in layers]},
        "history": [{"created": when, "created_by": it.what} for it in layers],
    }
    blobs = {it.digest: it.content for it in layers}
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _put(blobs, f"{_OCI}.config.v1+json", _json(described)),
        "layers": [_put(blobs, f"{_OCI}.layer.v1.tar+gzip", it.content) for it in layers],
    }
    entry = _put(blobs, f"{_OCI}.manifest.v1+json", _json(manifest))
    named = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.index.v1+json",
        "manifests": [{**entry, "platform": platform, "annotations": named}],
    }
    saved = {
        "Config": _path(manifest["config"]["digest"]),
        "RepoTags": [name],
        "Layers": [_path(it.digest) for it in layers],
    }
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(index),
        "manifest.json": _json([saved]),
        **{_path(digest): content for digest, content in blobs.items()},
    }
    return Archive(_tar(files), entry["digest"])


def _put(blobs: dict[str, bytes], media_type: str, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    blobs[digest] = content
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _tar(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as entries:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            entries.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
