"""Deployment, ReplicaSet and Job: stored and checked; no controller acts on them.

Sources: Kubernetes pkg/apis/{apps,batch}/v1/defaults.go, pkg/apis/{apps,batch}/validation,
pkg/registry/{apps,batch}/*/strategy.go.
"""

from collections.abc import Iterable, Sequence

from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.builtin.pod import default_spec, spec_faults
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.server_metadata import check_labels
from tools.local_apiserver.core.unstructured import (
    Object,
    is_equal,
    items,
    made,
    mapping,
    number,
    objects,
    strings,
    text,
    texts,
)

_NOT_NEGATIVE = "must be greater than or equal to 0"
_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_JOB_NAME = "batch.kubernetes.io/job-name"


def _template_spec(obj: Object) -> Object:
    return mapping(obj, "spec", "template", "spec")


def _template(obj: Object) -> Iterable[FieldError]:
    labels = mapping(obj, "spec", "template", "metadata", "labels")
    yield from check_labels(labels, "spec.template.metadata.labels")
    yield from spec_faults(_template_spec(obj), "spec.template.spec")


def _counts(obj: Object, fields: Sequence[str]) -> Iterable[FieldError]:
    for field in fields:
        value = number(obj, "spec", field)
        if value is not None and value < 0:
            yield field_errors.invalid(f"spec.{field}", value, _NOT_NEGATIVE)


def _selector(obj: Object) -> Iterable[FieldError]:
    selector = mapping(obj, "spec", "selector")
    labels = mapping(obj, "spec", "template", "metadata", "labels")
    if "selector" not in mapping(obj, "spec"):
        yield field_errors.required("spec.selector")
    elif not mapping(selector, "matchLabels") and not items(selector, "matchExpressions"):
        said = "empty selector is invalid for deployment"
        yield field_errors.invalid("spec.selector", selector, said)
    yield from check_labels(mapping(selector, "matchLabels"), "spec.selector.matchLabels")
    if not selector or not _selects(selector, labels):
        shown = labels or None
        said = "`selector` does not match template `labels`"
        yield field_errors.invalid("spec.template.metadata.labels", shown, said)


def _selects(selector: Object, labels: Object) -> bool:
    """metav1.LabelSelectorAsSelector"""
    if any(labels.get(key) != value for key, value in mapping(selector, "matchLabels").items()):
        return False
    return all(_is_met(one, labels) for one in objects(selector, "matchExpressions"))


def _is_met(requirement: Object, labels: Object) -> bool:
    key, values = text(requirement, "key"), texts(requirement, "values")
    match text(requirement, "operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False


def _always_restarts(obj: Object) -> Iterable[FieldError]:
    policy = text(_template_spec(obj), "restartPolicy")
    if policy != "Always":
        where = "spec.template.spec.restartPolicy"
        yield field_errors.not_supported(where, policy, ("Always",))


def _immutable(obj: Object, current: Object, field: str) -> Iterable[FieldError]:
    found = mapping(obj, "spec").get(field)
    if not is_equal(found, mapping(current, "spec").get(field)):
        yield field_errors.invalid(f"spec.{field}", found, "field is immutable")


# Deployment


def _default_deployment(obj: Object) -> None:
    spec = made(obj, "spec")
    default_spec(made(spec, "template", "spec"))
    spec.setdefault("replicas", 1)
    strategy = dict(mapping(spec, "strategy"))
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = mapping(strategy, "rollingUpdate")
        strategy["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **rolling}
    spec["strategy"] = strategy
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _check_deployment(obj: Object) -> Sequence[FieldError]:
    found = [*_counts(obj, ("replicas", "minReadySeconds", "revisionHistoryLimit"))]
    found += [*_selector(obj), *_template(obj), *_always_restarts(obj)]
    kind = text(obj, "spec", "strategy", "type")
    if kind not in ("RollingUpdate", "Recreate"):
        supported = ("Recreate", "RollingUpdate")
        found.append(field_errors.not_supported("spec.strategy.type", kind, supported))
    return found


def _check_selector_update(obj: Object, current: Object) -> Sequence[FieldError]:
    return list(_immutable(obj, current, "selector"))


# ReplicaSet


def _default_replica_set(obj: Object) -> None:
    spec = made(obj, "spec")
    default_spec(made(spec, "template", "spec"))
    spec.setdefault("replicas", 1)


def _check_replica_set(obj: Object) -> Sequence[FieldError]:
    found = [*_counts(obj, ("replicas", "minReadySeconds"))]
    return [*found, *_selector(obj), *_template(obj), *_always_restarts(obj)]


def _count_none(obj: Object) -> None:
    obj["status"] = {"replicas": 0}


# Job


def _default_job(obj: Object) -> None:
    spec = made(obj, "spec")
    # kube-apiserver defaults the restart policy too late for Jobs, and then refuses it.
    template = made(spec, "template", "spec")
    policy = template.get("restartPolicy")
    default_spec(template)
    if policy is None:
        del template["restartPolicy"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)


def _select_own_pods(obj: Object) -> None:
    """generateSelector: a Job finds its pods by its uid."""
    spec, meta = mapping(obj, "spec"), mapping(obj, "metadata")
    if spec.get("manualSelector") is True:
        return
    uid, name = text(meta, "uid"), text(meta, "name")
    own: Object = {
        _CONTROLLER_UID: uid,
        _JOB_NAME: name,
        "controller-uid": uid,
        "job-name": name,
    }
    template = spec.setdefault("template", {})
    for owner in (obj, template):
        if isinstance(owner, dict):
            found = owner.setdefault("metadata", {})
            if isinstance(found, dict):
                found["labels"] = dict(sorted({**mapping(found, "labels"), **own}.items()))
    spec["selector"] = {"matchLabels": {_CONTROLLER_UID: uid}}


def _check_job(obj: Object) -> Sequence[FieldError]:
    found = [*_counts(obj, ("parallelism", "completions", "backoffLimit"))]
    template = dict(_template_spec(obj))
    policy = text(template, "restartPolicy")
    if policy not in ("OnFailure", "Never"):
        where, said = "spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'
        if policy:
            found.append(field_errors.not_supported(where, policy, strings(("OnFailure", "Never"))))
        else:
            found.append(field_errors.required(where, said))
        template["restartPolicy"] = "Never"
    return [*found, *spec_faults(template, "spec.template.spec")]


def _check_job_update(obj: Object, current: Object) -> Sequence[FieldError]:
    fields = ("selector", "template", "completionMode", "completions")
    return [fault for field in fields for fault in _immutable(obj, current, field)]


DEPLOYMENT = Strategy(
    counts_generation=True,
    counts_annotations=True,
    default=_default_deployment,
    check=_check_deployment,
    check_update=_check_selector_update,
)
REPLICA_SET = Strategy(
    counts_generation=True,
    default=_default_replica_set,
    prepare_create=_count_none,
    check=_check_replica_set,
    check_update=_check_selector_update,
)
JOB = Strategy(
    counts_generation=True,
    orphans_by_default=True,
    default=_default_job,
    prepare_create=_select_own_pods,
    check=_check_job,
    check_update=_check_job_update,
)
