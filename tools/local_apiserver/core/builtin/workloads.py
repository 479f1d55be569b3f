"""Deployment, ReplicaSet and Job: defaulted and stored; no controller acts on them.

Sources: Kubernetes pkg/apis/{apps,batch}/v1/defaults.go, pkg/registry/{apps,batch}/*/strategy.go.
"""

from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.builtin.pod import default_spec
from tools.local_apiserver.core.unstructured import (
    Object,
    made,
    mapping,
    text,
)

_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_JOB_NAME = "batch.kubernetes.io/job-name"


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


# ReplicaSet


def _default_replica_set(obj: Object) -> None:
    spec = made(obj, "spec")
    default_spec(made(spec, "template", "spec"))
    spec.setdefault("replicas", 1)


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


DEPLOYMENT = Strategy(
    counts_generation=True,
    counts_annotations=True,
    default=_default_deployment,
)
REPLICA_SET = Strategy(
    counts_generation=True,
    default=_default_replica_set,
    prepare_create=_count_none,
)
JOB = Strategy(
    counts_generation=True,
    orphans_by_default=True,
    default=_default_job,
    prepare_create=_select_own_pods,
)
