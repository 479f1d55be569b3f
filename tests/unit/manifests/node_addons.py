"""kube-proxy as kubeadm installs it, and flannel as its own manifest does: what a patch of the two
meets, and no more of them.
"""

from typing import Any

Json = dict[str, Any]


def kube_proxy(namespace: str = "kube-system") -> list[Json]:
    daemons = _daemon_set(
        "kube-proxy",
        namespace,
        {"k8s-app": "kube-proxy"},
        {
            "name": "kube-proxy",
            "image": "example.com/kube-proxy:v1.36.3",
            "command": [
                "/usr/local/bin/kube-proxy",
                "--config=/var/lib/kube-proxy/config.conf",
                "--hostname-override=$(NODE_NAME)",
            ],
            "env": [_field("NODE_NAME", "spec.nodeName")],
            "volumeMounts": [{"name": "kube-proxy", "mountPath": "/var/lib/kube-proxy"}],
        },
        [{"name": "kube-proxy", "configMap": {"name": "kube-proxy"}}],
    )
    daemons["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    return [daemons]


def flannel(namespace: str = "kube-flannel") -> list[Json]:
    network = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-flannel-cfg", "namespace": namespace},
        "data": {"cni-conf.json": "{}", "net-conf.json": '{"Network": "10.244.0.0/16"}'},
    }
    daemons = _daemon_set(
        "kube-flannel-ds",
        namespace,
        {"app": "flannel"},
        {
            "name": "kube-flannel",
            "image": "example.com/flannel:v0.28.4",
            "command": ["/opt/bin/flanneld"],
            "args": ["--ip-masq", "--kube-subnet-mgr"],
            "env": [_field("POD_NAME", "metadata.name")],
            "volumeMounts": [
                {"name": "run", "mountPath": "/run/flannel"},
                {"name": "flannel-cfg", "mountPath": "/etc/kube-flannel/"},
            ],
        },
        [
            {"name": "run", "hostPath": {"path": "/run/flannel"}},
            {"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}},
            {"name": "flannel-cfg", "configMap": {"name": "kube-flannel-cfg"}},
        ],
    )
    spec = daemons["spec"]["template"]["spec"]
    spec["initContainers"] = [
        {
            "name": "install-cni",
            "image": "example.com/flannel:v0.28.4",
            "command": ["cp"],
            "args": ["-f", "/etc/kube-flannel/cni-conf.json", "/etc/cni/net.d/10-flannel.conflist"],
            "volumeMounts": [
                {"name": "cni", "mountPath": "/etc/cni/net.d"},
                {"name": "flannel-cfg", "mountPath": "/etc/kube-flannel/"},
            ],
        }
    ]
    linux = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [linux]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    spec["affinity"] = {"nodeAffinity": required}
    return [network, daemons]


def _daemon_set(
    name: str, namespace: str, labels: dict[str, str], container: Json, volumes: list[Json]
) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostNetwork": True,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
