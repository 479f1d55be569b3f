"""What `--preload` names: a resource as kubectl spells it, with a query as the API server's.

`pods?fieldSelector=spec.nodeName=n1`, `deployments.apps`, `widgets.v1.example.com`. Pure.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from relay_sidecar.config.values import BadInput

# RFC 1123: a resource is a label, a group a subdomain, a namespace a label.
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
# apimachinery, pkg/version/helpers.go: kubeVersionRegex.
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?", re.ASCII)
_KEYS = ("namespace", "labelSelector", "fieldSelector")


@dataclass(frozen=True)
class Preload:
    """`version` None: the one that upstream prefers; `namespace` "": all."""

    plural: str
    group: str
    version: str | None
    namespace: str
    label_selector: str
    field_selector: str


def preload(text: str) -> Preload:
    """Raises `BadInput`."""
    name, _, query = text.partition("?")
    plural, _, rest = name.partition(".")
    version: str | None = None
    first, _, after = rest.partition(".")
    if _VERSION.fullmatch(first):
        version, rest = first, after
    labels = [plural, *(rest.split(".") if rest else [])]
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise BadInput(
            f"{text!r:.120} is not RESOURCE[.VERSION][.GROUP][?QUERY]: write it like "
            "pods?fieldSelector=spec.nodeName=n1, deployments.apps or widgets.v1.example.com"
        )
    told = _query(text, query)
    return Preload(
        plural=plural,
        group=rest,
        version=version,
        namespace=told.get("namespace", ""),
        label_selector=told.get("labelSelector", ""),
        field_selector=told.get("fieldSelector", ""),
    )


def _query(text: str, query: str) -> dict[str, str]:
    told: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in _KEYS or key in told:
            problem = "is given twice" if key in told else f"is none of {', '.join(_KEYS)}"
            raise BadInput(f"{text!r:.120}: {key!r:.80} {problem}")
        told[key] = value
    namespace = told.get("namespace", "")
    if namespace and not _LABEL.fullmatch(namespace):
        raise BadInput(f"{text!r:.120}: {namespace!r:.80} is not a namespace")
    return told
