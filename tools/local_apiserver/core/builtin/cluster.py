"""Namespace and Node (Kubernetes pkg/registry/core/{namespace,node}/strategy.go)."""

from tools.local_apiserver.core import names, server_metadata
from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.unstructured import Object, copied, mapping, text

# The label that NamespaceDefaultLabelName sets.
NAME_LABEL = "kubernetes.io/metadata.name"
# As long as a namespace has it, its contents are not known to be gone (core.FinalizerKubernetes).
CONTENTS_FINALIZER = "kubernetes"
# What kube-apiserver makes at its start (pkg/controlplane/controller/systemnamespaces).
SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
# NamespaceLifecycle's immortals
IMMORTAL_NAMESPACES = ("default", "kube-public", "kube-system")


def _default_namespace(obj: Object) -> None:
    meta = server_metadata.of(obj)
    labels = dict(mapping(meta, "labels"))
    labels[NAME_LABEL] = text(meta, "name")
    meta["labels"] = dict(sorted(labels.items()))


def _prepare_namespace(obj: Object) -> None:
    obj["spec"] = {"finalizers": [CONTENTS_FINALIZER]}
    obj["status"] = {"phase": "Active"}


def _keep_finalizers(obj: Object, current: Object) -> None:
    obj["spec"] = copied(current.get("spec"))


NAMESPACE = Strategy(
    name_rule=names.dns_label,
    default=_default_namespace,
    prepare_create=_prepare_namespace,
    prepare_update=_keep_finalizers,
)


def _default_allocatable(obj: Object) -> None:
    """What is there can be allocated, unless it is said (SetDefaults_NodeStatus)."""
    status = mapping(obj, "status")
    if mapping(status, "capacity") and not mapping(status, "allocatable"):
        status["allocatable"] = copied(status["capacity"])


def _default_reported(obj: Object, current: Object) -> None:
    _default_allocatable(obj)


# A kubelet registers its node with the status.
NODE = Strategy(
    keeps_first_status=True,
    default=_default_allocatable,
    prepare_status=_default_reported,
)


def system_namespace(name: str) -> Object:
    """A namespace that the server makes for itself."""
    return {"metadata": {"name": name, "labels": {NAME_LABEL: name}}}
