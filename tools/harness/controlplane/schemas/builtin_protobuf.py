"""Makes the file of field numbers by which the local API server reads built-in objects in protobuf.

Reads Kubernetes' own Go types (Apache License 2.0) as the tests' programs are built from them: the
number of each field stands in its tag, and whether it is a pointer in its type. Run it with
`python -m tools.harness.controlplane.schemas.builtin_protobuf` after a new version of Kubernetes
was taken in.
"""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tools.harness.controlplane.schemas.builtin_schemas import FILE as SCHEMAS

FILE = SCHEMAS.with_name("protobuf_fields.json")
# Of k8s.io/api and k8s.io/apimachinery, as of the kube-apiserver in
# tools/harness/controlplane/build.py.
VERSION = "v0.37.2"
MODULES = {"io.k8s.api": "api", "io.k8s.apimachinery": "apimachinery"}

_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^\t(?:\w+ )?(?P<type>[\w.*\[\]]+) +`json:\"(?P<json>[^\"]*)\"[^`]*"
    r"\bprotobuf:\"\w+,(?P<number>\d+),",
    re.MULTILINE,
)
# A number, negative for a pointer; under "" what is inlined: [number, fields].
Fields = dict[str, Any]


def protobuf_fields() -> dict[str, Fields]:
    """Of the local API server's built-in types that are structs in Go, by OpenAPI name."""
    found = {}
    for name in json.loads(SCHEMAS.read_text(encoding="utf-8")):
        package, _, kind = name.rpartition(".")
        fields = _fields(package, kind)
        if fields:
            found[name] = fields
    return found


def _fields(package: str, kind: str) -> Fields:
    body = _structs(package).get(kind, "")
    fields: Fields = {}
    for match in _FIELD.finditer(body):
        name = match["json"].partition(",")[0]
        number, go_type = int(match["number"]), match["type"]
        # Go inlines an embedded struct that has no name; up to 1.36 the tag says so as well.
        if not name:
            inlined = _fields(package, go_type.lstrip("*").rpartition(".")[2])
            fields.setdefault("", []).append([number, inlined])
        else:
            fields[name] = -number if go_type.startswith("*") else number
    return fields


@cache
def _structs(package: str) -> dict[str, str]:
    """The body of each struct of a Go package, by name."""
    for prefix, module in MODULES.items():
        if package.startswith(f"{prefix}."):
            path = package.removeprefix(f"{prefix}.").replace(".", "/")
            folder = _module_cache() / f"k8s.io/{module}@{VERSION}" / path
            text = "\n".join(
                file.read_text(encoding="utf-8") for file in sorted(folder.glob("*types.go"))
            )
            return dict(_STRUCT.findall(text))
    return {}


@cache
def _module_cache() -> Path:
    done = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def main() -> None:
    lines = (
        f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}"
        for name, fields in protobuf_fields().items()
    )
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
