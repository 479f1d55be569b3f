"""Making an object's children those that they shall be.

    none there            --> create
    on its way out        --> wait until it is gone
    another spec hash     --> a pod: delete, and create once it is gone; others: replace in place
    not wanted any more   --> delete

Guarantees: a name is of one child, so a GM that decides twice, or beside another one, makes
none twice; only children of this object are touched, each under its uid and resourceVersion. A
child that the API server has refused is not asked for again before the shell forgets that.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.engine.conditions import CHILD_REFUSED
from gm.core.engine.plan import CreateChild, DeleteChild, ReplaceChild
from gm.core.engine.reconcile_context import ReconcileContext
from gm.core.kind import Problem
from gm.core.tree import copied, mapping, objects, text
from gm.core.workers.manifests import spec_hash

# Seconds after which something that the API server has refused is tried again: what it refused may
# be right by then, e.g. a quota. Sedna's queue begins with 10 s.
REFUSED_PAUSE: Final = 30.0
# Bounds a reason of the API server in a message; it repeats the whole object in some.
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Children:
    """Those that are, by kind and name."""

    by_name: dict[tuple[str, str], Json]

    @classmethod
    def of(cls, children: Iterable[Json]) -> "Children":
        return cls({(text(it, "kind"), text(it, "metadata", "name")): it for it in children})

    def get(self, kind: str, name: str) -> Json | None:
        return self.by_name.get((kind, name))

    def of_kind(self, kind: str) -> Iterator[Json]:
        return (it for (of, _), it in sorted(self.by_name.items()) if of == kind)


def is_leaving(child: Json) -> bool:
    """Whether it is being deleted."""
    return bool(text(child, "metadata", "deletionTimestamp"))


def stands_for(existing: Json, manifest: Json, owner_uid: str) -> bool:
    """Whether AlreadyExists means that the child was made already (contract, G2)."""
    owners = objects(existing, "metadata", "ownerReferences")
    return (
        any(text(it, "uid") == owner_uid for it in owners)
        and spec_hash(existing) == spec_hash(manifest)
        and not is_leaving(existing)
    )


def reconcile(
    context: ReconcileContext, wanted: Sequence[Json], *, unwanted: Sequence[Json] = ()
) -> list[Json]:
    """Ask for what is missing, to be replaced or to go.

    Those of `wanted` that are there, as they are, and those that are being made: the status is
    written only if they were.
    """
    children = Children.of(context.view.children)
    there: list[Json] = []
    refused: list[Problem] = []
    is_whole = True
    for manifest in wanted:
        kind, name = text(manifest, "kind"), text(manifest, "metadata", "name")
        child = children.get(kind, name)
        if child is not None and is_leaving(child):
            is_whole = False
            continue
        if child is not None and spec_hash(child) == spec_hash(manifest):
            there.append(child)
            continue
        is_whole = False
        if problem := _refused(context, manifest):
            refused.append(problem)
        elif child is None:
            context.actions.append(CreateChild(manifest))
            there.append(manifest)
        elif kind == "Pod":
            context.actions.append(deletion(child))
        else:
            context.actions.append(ReplaceChild(_in_place_of(child, manifest)))
    context.actions.extend(deletion(it) for it in unwanted if not is_leaving(it))
    if refused:
        context.stand(refused)
        context.again(REFUSED_PAUSE)
    elif not is_whole and text(context.log.trailing or {}, "reason") == CHILD_REFUSED:
        # Tried again, and not known yet whether with success.
        context.log.keep_problem()
    return there


def deletion(child: Json) -> DeleteChild:
    metadata = mapping(child, "metadata")
    return DeleteChild(
        kind=text(child, "kind"),
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        resource_version=text(metadata, "resourceVersion"),
    )


def _refused(context: ReconcileContext, manifest: Json) -> Problem | None:
    kind, name = text(manifest, "kind"), text(manifest, "metadata", "name")
    for one in context.view.refusals:
        if (one.kind, one.name, one.spec_hash) == (kind, name, spec_hash(manifest)):
            return Problem(
                f"{kind} {name}",
                f"refused by the API server: {one.message[:_LONGEST]}",
                "change the template, or what refuses it",
                CHILD_REFUSED,
            )
    return None


def _in_place_of(child: Json, manifest: Json) -> Json:
    """What others have set stays: a Service's address, replicas that HPA chose."""
    merged = copied(manifest)
    metadata = mapping(child, "metadata")
    merged["metadata"]["uid"] = text(metadata, "uid")
    merged["metadata"]["resourceVersion"] = text(metadata, "resourceVersion")
    old = copied(mapping(child, "spec"))
    if text(manifest, "kind") == "Service":
        merged["spec"] = {**old, **merged["spec"]}
    elif text(manifest, "kind") == "Deployment":
        # Immutable, and other fields are the user's to drop.
        merged["spec"]["selector"] = old.get("selector", merged["spec"]["selector"])
        if "replicas" not in merged["spec"] and "replicas" in old:
            merged["spec"]["replicas"] = old["replicas"]
    return merged
