"""What is in an image, for scanners: CycloneDX 1.6 in JSON. **Pure** but for reading the library.

Guarantees: the packages are those that are in the image, read where dpkg and pip note them; the
same image has the same text.
"""

import importlib.metadata
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from email.parser import Parser
from pathlib import Path
from typing import Any
from urllib.parse import quote

_SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"


def sbom(
    name: str, *, digest: str, architecture: str, created: int, debian: str, library: Path | None
) -> str:
    """Of the image `name`. `debian`: its dpkg's status; `library`: its Python packages, if any."""
    repository, _, version = name.rpartition(":")
    image = repository.rpartition("/")[2]
    # The registry only in a qualifier (purl-spec, type oci): copies are the same image.
    qualifiers = f"arch={architecture}&repository_url={quote(repository, safe='')}&tag={version}"
    purl = f"pkg:oci/{image}@{quote(digest, safe='')}?{qualifiers}"
    components = [*_debian(debian), *(_python(library) if library else [])]
    document = {
        "$schema": _SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # Of this image, not of this run.
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, purl).urn,
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": _component("container", image, version, purl),
        },
        "components": sorted(components, key=lambda it: it["purl"]),
    }
    return json.dumps(document, indent=2) + "\n"


def _debian(status: str) -> Iterator[dict[str, Any]]:
    for paragraph in filter(None, map(str.strip, status.split("\n\n"))):
        fields = Parser().parsestr(paragraph, headersonly=True)
        name, version = fields["Package"], fields["Version"]
        purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={fields['Architecture']}"
        yield _component("library", name, version, purl)


def _python(library: Path) -> Iterator[dict[str, Any]]:
    for found in importlib.metadata.distributions(path=[str(library)]):
        name = found.metadata["Name"]
        # https://packaging.python.org/en/latest/specifications/name-normalization/
        normal = name.lower().replace("_", "-").replace(".", "-")
        purl = f"pkg:pypi/{normal}@{quote(found.version)}"
        component = _component("library", name, found.version, purl)
        if "License-Expression" in found.metadata:
            component["licenses"] = [{"expression": found.metadata["License-Expression"]}]
        yield component


def _component(kind: str, name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
