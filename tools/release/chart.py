"""A Helm chart of what kustomize renders of one folder: the same objects, with values in the places
that users change. **Pure.**

Values are: where images come from and with which Secrets, and for each container of ours its
variables and its resources; the replicas of a Deployment and the nodes of a workload; the address
of GM. The values that a chart comes with are those of the
manifests, so that both give the same objects. Guarantees: values that the chart does not know are
refused by its schema; all objects with a namespace are in that of the release, or where policies
name the namespace, another one is refused; what makes namespaces is left to Helm.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_sidecars.runtime.version import VERSION
from tools.images import OWN_IMAGES
from tools.release.template_text import Actions, dump

Json = dict[str, Any]

_OWN_IMAGE = re.compile(rf"{re.escape(OWN_IMAGES)}/([a-z-]+):([\w.-]+)")
_HELPERS = Path(__file__).with_name("helpers.tpl")
# Native sidecars are on since 1.29 (KEP-753); the others:
# docs/how-to/manifests.md and docs/how-to/injection.md.
_OLDEST = "1.29"
_OLDEST_OF = {
    "active-active-shards": "1.30",
    "relay": "1.31",
    "pool": "1.32",
    "injection": "1.36",
    "injection-v1beta1": "1.34",
}
_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet")
# The comments of values.yaml, by top-level key.
_COMMENTS = {
    "image": "Where images are pulled from: REGISTRY/gm:TAG and so on, and with which Secrets.",
    "gmAddress": "Where LCs reach GM, by an address that edge nodes know.",
}
_OF_WORKLOAD = (
    "{kind} {name}: for each container its variables, each of which is a flag's (a number or a "
    "text; null takes one away), and its resources; the labels of its nodes."
)


@dataclass(frozen=True)
class Rights:
    """What one account may do in each namespace that a variable names, with spaces between; where
    it names none, in all of them. Both as kustomize renders them."""

    variable: tuple[str, ...]
    in_one: Sequence[Json]
    in_all: Sequence[Json]


@dataclass(frozen=True)
class Source:
    """One folder of manifests/. `namespace`: that of its objects, "" where they have none;
    `fixed_because` says why it cannot be another one. `registry`: of our images."""

    name: str
    description: str
    objects: Sequence[Json]
    registry: str = OWN_IMAGES
    namespace: str = ""
    fixed_because: str = ""
    rights: Rights | None = None


def has_values(objects: Sequence[Json]) -> bool:
    """Whether a chart of them would be of any use: an image of ours is in them."""
    return any(_OWN_IMAGE.fullmatch(text) for it in objects for text in _texts(it))


def chart(source: Source) -> dict[str, str]:
    """The text of each file, by its path in the chart's folder."""
    return _Chart(source).files()


@dataclass
class _Chart:
    source: Source
    values: Json = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=lambda: dict(_COMMENTS))
    tags: set[str] = field(default_factory=set)
    rollouts: list[str] = field(default_factory=list)

    def files(self) -> dict[str, str]:
        self.values["image"] = {"registry": self.source.registry, "tag": ""}
        templates = {
            f"templates/{_file_name(it)}": self._template(it)
            for it in self.source.objects
            if it["kind"] != "Namespace"
        }
        if self.source.rights is not None:
            templates["templates/rights.yaml"] = self._rights(self.source.rights)
        if self.source.fixed_because:
            templates["templates/namespace.yaml"] = self._fixed_namespace()
        (self.values["image"]["tag"],) = self.tags
        return {
            "Chart.yaml": dump(self._head()),
            "values.yaml": self._values_text(),
            "values.schema.json": json.dumps(self._schema(), indent=2) + "\n",
            "templates/_helpers.tpl": _HELPERS.read_text(encoding="utf-8"),
            "templates/NOTES.txt": self._notes(),
            **templates,
        }

    def _head(self) -> Json:
        oldest = _OLDEST_OF.get(self.source.name, _OLDEST)
        return {
            "apiVersion": "v2",
            "name": self.source.name,
            "description": self.source.description,
            "type": "application",
            "version": VERSION,
            "appVersion": VERSION,
            # With the suffix, so that versions like 1.36.3-gke.1 are in it.
            "kubeVersion": f">={oldest}.0-0",
        }

    # ── values ──

    def _values_text(self) -> str:
        parts = [f"# The chart {self.source.name}, made by `make release` of manifests/.\n"]
        for key, value in self.values.items():
            comment = textwrap.fill(
                self.comments[key], 98, initial_indent="# ", subsequent_indent="# "
            )
            parts.append(f"{comment}\n{dump({key: value})}")
        return "\n".join(parts)

    def _schema(self) -> Json:
        schema = _schema(self.values)
        # Helm's own, of a chart that has this one inside.
        schema["properties"]["global"] = {"type": "object"}
        return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}

    # ── templates ──

    def _template(self, it: Json) -> str:
        actions = Actions()
        document = self._with_actions(it, actions)
        if it["kind"] in _WORKLOADS:
            self._open_workload(document, actions)
        if it["kind"] == "ConfigMap" and "gm-address" in it.get("data", {}):
            # Text with actions in it, so that the name of the release's namespace can be.
            own = f".{self.source.namespace}."
            address = it["data"]["gm-address"].replace(own, ".{{ .Release.Namespace }}.")
            self.values["gmAddress"] = address
            document["data"]["gm-address"] = actions.scalar("tpl $.Values.gmAddress $ | quote")
        return actions.text(document)

    def _with_actions(self, it: Any, actions: Actions, key: str = "") -> Any:
        match it:
            case dict():
                return {
                    name: self._with_actions(value, actions, name) for name, value in it.items()
                }
            case list():
                return [self._with_actions(value, actions) for value in it]
            case str() if found := _OWN_IMAGE.fullmatch(it):
                self.tags.add(found[2])
                return actions.scalar(f'include "edge-sidecars.image" (list $ "{found[1]}")')
            case str() if key == "namespace" and it == self.source.namespace:
                return actions.scalar("$.Release.Namespace | quote")
        return it

    def _open_workload(self, workload: Json, actions: Actions) -> None:
        """Puts values into an object of ours."""
        kind, name = workload["kind"], workload["metadata"]["name"]
        key = _camel(name)
        values: Json = {}
        if "replicas" in workload["spec"]:
            values["replicas"] = workload["spec"]["replicas"]
            workload["spec"]["replicas"] = actions.scalar(f"$.Values.{key}.replicas")
        pod = workload["spec"]["template"]["spec"]
        self.values["image"].setdefault("pullSecrets", [])
        pod["imagePullSecrets"] = actions.optional("$.Values.image.pullSecrets")
        values["nodeSelector"] = pod.get("nodeSelector", {})
        pod["nodeSelector"] = actions.optional(f"$.Values.{key}.nodeSelector")
        self.rollouts.append(f"{kind.lower()}/{name}")
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            inner = _camel(container["name"])
            values[inner] = self._open_container(container, f"{key}.{inner}", actions)
        self.values[key] = values
        self.comments[key] = _OF_WORKLOAD.format(kind=kind, name=name)

    def _open_container(self, container: Json, path: str, actions: Actions) -> Json:
        given = {it["name"]: it["value"] for it in container.get("env", ()) if "value" in it}
        # First, because kubelet puts into a value only variables that come before it.
        fixed = [it for it in container.get("env", ()) if "value" not in it]
        names = " ".join(f'"{it["name"]}"' for it in fixed)
        env = actions.block(
            f'include "edge-sidecars.env" (dict "env" $.Values.{path}.env "fixed" (list {names}) '
            f'"path" "{path}.env") | trim'
        )
        container["env"] = [*fixed, env] if fixed else env
        resources = container.get("resources", {})
        container["resources"] = actions.block(f"toYaml $.Values.{path}.resources")
        return {"env": given, "resources": resources}

    def _rights(self, rights: Rights) -> str:
        """For each namespace that the variable names."""
        actions = Actions()
        here = actions.scalar("$namespace | quote")
        in_one = [self._with_actions(it, actions) for it in rights.in_one]
        for it in in_one:
            it["metadata"]["namespace"] = here
        in_all = [self._with_actions(it, actions) for it in rights.in_all]
        given = f'$.Values.{".".join(rights.variable)} | default "" | toString'
        names = f'splitList " " ({given}) | compact'
        return "".join(
            [
                f"{{{{- range $namespace := {names} }}}}\n",
                *(f"---\n{actions.text(it)}" for it in in_one),
                "{{- else }}\n",
                *(f"---\n{actions.text(it)}" for it in in_all),
                "{{- end }}\n",
            ]
        )

    def _notes(self) -> str:
        """What Helm prints after an installation."""
        kubectl = "kubectl --namespace {{ .Release.Namespace }}"
        return "".join(
            [
                f"{self.source.name} {VERSION} is applied. It runs once these have ended well:\n\n"
                if self.rollouts
                else f"{self.source.name} {VERSION} is applied.\n",
                *(f"  {kubectl} rollout status {it}\n" for it in self.rollouts),
            ]
        )

    def _fixed_namespace(self) -> str:
        namespace, why = self.source.namespace, self.source.fixed_because
        return (
            f'{{{{- if ne $.Release.Namespace "{namespace}" }}}}\n'
            f'{{{{- fail (printf "--namespace %s: install this chart with --namespace {namespace}: '
            f'{why}" $.Release.Namespace) }}}}\n'
            "{{- end }}\n"
        )


def _file_name(it: Json) -> str:
    name = re.sub(r"[^a-z0-9-]+", "-", it["metadata"]["name"])
    return f"{it['kind'].lower()}-{name}.yaml"


def _camel(name: str) -> str:
    """As values are named, so that templates reach them by dots."""
    first, *others = name.split("-")
    return first + "".join(it.title() for it in others)


def _texts(it: Any) -> Iterator[str]:
    match it:
        case str():
            yield it
        case dict():
            for value in it.values():
                yield from _texts(value)
        case list():
            for value in it:
                yield from _texts(value)


def _schema(value: Any, key: str = "") -> Json:
    """Draft 7. Variables are whatever a program reads; resources are Kubernetes' to judge."""
    if key == "env":
        return {"type": "object", "additionalProperties": {"type": _SCALARS}}
    if key in ("resources", "nodeSelector"):
        return {"type": "object"}
    if isinstance(value, list):
        return {"type": "array", "items": {"type": "object"}}
    if isinstance(value, Mapping):
        properties = {name: _schema(it, name) for name, it in value.items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}
    if isinstance(value, int):
        return {"type": "integer", "minimum": 0}
    # A tag like 1.2 is a number to YAML.
    return {"type": ["string", "number"] if key == "tag" else "string"}


_SCALARS = ["string", "number", "boolean", "null"]
