"""The resources that a CustomResourceDefinition makes: one for each version that is served."""

from collections.abc import Callable, Sequence

import msgspec

from edge_sidecars.apimachinery.resource_name import ResourceName
from edge_sidecars.local_apiserver.core.api_resource import Resource, Strategy
from edge_sidecars.local_apiserver.core.schema.pruning import apply_defaults, drop_nulls, prune
from edge_sidecars.local_apiserver.core.schema.schema import Schema, read_schema
from edge_sidecars.local_apiserver.core.unstructured import (
    Object,
    is_equal,
    items,
    mapping,
    objects,
    text,
    texts,
)

_STRATEGY = Strategy(
    demands_standard_finalizers=False,
    counts_generation=True,
    allows_unconditional_update=False,
)


def resources(definition: Object) -> Sequence[Resource]:
    """Of an established definition. The stored version is there even if it is not served."""
    spec = mapping(definition, "spec")
    group, found = text(spec, "group"), mapping(spec, "names")
    stored = next(text(one, "name") for one in objects(spec, "versions") if one.get("storage"))
    made = []
    for version in objects(spec, "versions"):
        raw = mapping(version, "schema", "openAPIV3Schema")
        schema = read_schema(raw)
        made.append(
            Resource(
                name=ResourceName(group, text(version, "name"), text(found, "plural")),
                storage=ResourceName(group, stored, text(found, "plural")),
                kind=text(found, "kind"),
                list_kind=text(found, "listKind"),
                singular=text(found, "singular"),
                is_namespaced=text(spec, "scope") == "Namespaced",
                schema=schema,
                raw_schema=msgspec.json.encode(raw),
                is_custom=True,
                is_served=version.get("served") is True,
                is_ending=bool(text(definition, "metadata", "deletionTimestamp")),
                has_status="status" in mapping(version, "subresources"),
                short_names=texts(found, "shortNames"),
                categories=texts(found, "categories"),
                selectable=[
                    text(field, "jsonPath").removeprefix(".")
                    for field in objects(version, "selectableFields")
                ],
                strategy=_STRATEGY,
                convert=_shaper(schema),
            )
        )
    return made


def _shaper(schema: Schema) -> Callable[[Object], Object]:
    def shape(obj: Object) -> Object:
        """What an older schema let through is pruned, what it did not know is defaulted."""
        prune(obj, schema)
        drop_nulls(obj, schema)
        apply_defaults(obj, schema)
        return obj

    return shape


def schema_path(spec: Object, index: int) -> str:
    """How kube-apiserver names the schema of a version: all being the same, it is one."""
    schemas = [mapping(one, "schema") for one in items(spec, "versions")]
    if all(is_equal(schema, schemas[0]) for schema in schemas):
        return "spec.validation.openAPIV3Schema"
    return f"spec.versions[{index}].schema.openAPIV3Schema"
