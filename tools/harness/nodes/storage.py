"""Pods whose volumes kubelet asks the API server for in other ways than the workloads': claims on
a CSI driver, Secrets and ConfigMaps that are immutable, which kubelet reads once.
"""

from collections.abc import Iterable
from typing import Any

from tools.harness.nodes import workloads
from tools.harness.nodes.images import CSI
from tools.harness.nodes.workloads import LABEL, NAMESPACE

Json = dict[str, Any]

DRIVER = "files.lab.example"
DAEMON = "csi-files"
_KUBELET = "/var/lib/kubelet"
_CLASS = "files"


def objects(nodes: Iterable[str]) -> list[Json]:
    """The driver on nodes with a relay, and a pod for each of `nodes`."""
    fixed = {"namespace": NAMESPACE, "name": "fixed"}
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"attachRequired": False, "fsGroupPolicy": "None"},
        },
        _daemon(),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": fixed,
            "immutable": True,
            "stringData": {"key": workloads.PASSWORD},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": fixed,
            "immutable": True,
            "data": {"colour": "blue"},
        },
        *(each for name in nodes for each in _of_node(name)),
    ]


def pod_name(node: str) -> str:
    return f"vault-{node}"


def _of_node(node: str) -> list[Json]:
    """A volume, the claim on it, and the pod that has the claim."""
    name = pod_name(node)
    size = {"storage": "1Mi"}
    claim = {"namespace": NAMESPACE, "name": name}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": size,
            "claimRef": claim,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": _CLASS,
        },
    }
    return [
        volume,
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": claim,
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": size},
                "storageClassName": _CLASS,
                "volumeName": name,
            },
        },
        workloads.pod(
            name,
            node=node,
            volumes=[
                {"name": "data", "persistentVolumeClaim": {"claimName": name}},
                {"name": "secret", "secret": {"secretName": "fixed"}},
                {"name": "settings", "configMap": {"name": "fixed"}},
            ],
        ),
    ]


def _daemon() -> Json:
    """As drivers come: a pod of each node, which kubelet has to start before those with volumes."""
    labels = {"app": DAEMON}
    folders = {
        "csi": f"{_KUBELET}/plugins/{DRIVER}",
        "registration": f"{_KUBELET}/plugins_registry",
        "pods": f"{_KUBELET}/pods",
    }
    mounts = {"csi": "/csi", "registration": "/registration", "pods": folders["pods"]}
    container = {
        "name": "driver",
        "image": CSI,
        "imagePullPolicy": "IfNotPresent",
        "args": ["$(NODE)"],
        "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "volumeMounts": [{"name": it, "mountPath": path} for it, path in mounts.items()],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"namespace": "kube-system", "name": DAEMON},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": {LABEL: ""},
                    "hostNetwork": True,
                    "tolerations": [{"operator": "Exists"}],
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                    "volumes": [
                        {
                            "name": it,
                            "hostPath": {"path": path, "type": "DirectoryOrCreate"},
                        }
                        for it, path in folders.items()
                    ],
                },
            },
        },
    }
