"""kube-proxy as kubeadm installs it, and flannel as its own manifest does, without what no test
looks at (labels, resources).
"""

import json
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

KUBE_PROXY_IMAGE = "example.com/kube-proxy:v1.36.3"
FLANNEL_IMAGE = "example.com/flannel:v0.28.4"
POD_NETWORK = "10.244.0.0/16"
_KUBECONFIG = """apiVersion: v1
kind: Config
clusters:
  - name: default
    cluster:
      certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
      server: {server}
users:
  - name: default
    user:
      tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
contexts:
  - name: default
    context: {{cluster: default, user: default}}
current-context: default
"""


def kube_proxy(
    namespace: str = "kube-system",
    *,
    server: str = "https://192.0.2.1:6443",
    more: Mapping[str, Any] | None = None,
) -> list[Json]:
    """`server`: of its kubeconfig; `more`: of its configuration."""
    configuration = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf"},
        "clusterCIDR": POD_NETWORK,
        "mode": "iptables",
        **(more or {}),
    }
    daemons = _daemon_set(
        "kube-proxy",
        namespace,
        {"k8s-app": "kube-proxy"},
        {
            "name": "kube-proxy",
            "image": KUBE_PROXY_IMAGE,
            "command": [
                "/usr/local/bin/kube-proxy",
                "--config=/var/lib/kube-proxy/config.conf",
                "--hostname-override=$(NODE_NAME)",
            ],
            "env": [_field("NODE_NAME", "spec.nodeName")],
            "securityContext": {"privileged": True},
            "volumeMounts": [
                {"name": "kube-proxy", "mountPath": "/var/lib/kube-proxy"},
                {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
                {"name": "lib-modules", "mountPath": "/lib/modules", "readOnly": True},
            ],
        },
        [
            {"name": "kube-proxy", "configMap": {"name": "kube-proxy"}},
            _XTABLES_LOCK,
            {"name": "lib-modules", "hostPath": {"path": "/lib/modules"}},
        ],
        account="kube-proxy",
    )
    daemons["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/os": "linux"}
    return [
        _account("kube-proxy", namespace),
        _binding("kubeadm:node-proxier", "system:node-proxier", "kube-proxy", namespace),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-proxy", "namespace": namespace},
            "data": {
                "config.conf": json.dumps(configuration),
                "kubeconfig.conf": _KUBECONFIG.format(server=server),
            },
        },
        daemons,
    ]


def flannel(namespace: str = "kube-flannel") -> list[Json]:
    network = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kube-flannel-cfg", "namespace": namespace},
        "data": {
            "cni-conf.json": json.dumps(_CNI),
            "net-conf.json": json.dumps({"Network": POD_NETWORK, "Backend": {"Type": "vxlan"}}),
        },
    }
    daemons = _daemon_set(
        "kube-flannel-ds",
        namespace,
        {"app": "flannel"},
        {
            "name": "kube-flannel",
            "image": FLANNEL_IMAGE,
            "command": ["/opt/bin/flanneld"],
            "args": ["--ip-masq", "--kube-subnet-mgr"],
            "env": [
                _field("POD_NAME", "metadata.name"),
                _field("POD_NAMESPACE", "metadata.namespace"),
            ],
            "securityContext": {
                "privileged": False,
                "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]},
            },
            "volumeMounts": [
                {"name": "run", "mountPath": "/run/flannel"},
                {"name": "flannel-cfg", "mountPath": "/etc/kube-flannel/"},
                {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
            ],
        },
        [
            {"name": "run", "hostPath": {"path": "/run/flannel"}},
            {"name": "cni-plugin", "hostPath": {"path": "/opt/cni/bin"}},
            {"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}},
            {"name": "flannel-cfg", "configMap": {"name": "kube-flannel-cfg"}},
            _XTABLES_LOCK,
        ],
        account="flannel",
    )
    spec = daemons["spec"]["template"]["spec"]
    spec["initContainers"] = [
        {
            "name": "install-cni-plugin",
            "image": FLANNEL_IMAGE,
            "command": ["cp"],
            "args": ["-f", "/flannel", "/opt/cni/bin/flannel"],
            "volumeMounts": [{"name": "cni-plugin", "mountPath": "/opt/cni/bin"}],
        },
        {
            "name": "install-cni",
            "image": FLANNEL_IMAGE,
            "command": ["cp"],
            "args": ["-f", "/etc/kube-flannel/cni-conf.json", "/etc/cni/net.d/10-flannel.conflist"],
            "volumeMounts": [
                {"name": "cni", "mountPath": "/etc/cni/net.d"},
                {"name": "flannel-cfg", "mountPath": "/etc/kube-flannel/"},
            ],
        },
    ]
    linux = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [linux]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    spec["affinity"] = {"nodeAffinity": required}
    return [
        _account("flannel", namespace),
        _role("flannel", FLANNEL_RULES),
        _binding("flannel", "flannel", "flannel", namespace),
        network,
        daemons,
    ]


def coredns_role() -> Json:
    """As kubeadm makes it."""
    return _role("system:coredns", COREDNS_RULES)


_READ = ["list", "watch"]
COREDNS_RULES: list[Json] = [
    {
        "apiGroups": [""],
        "resources": ["endpoints", "services", "pods", "namespaces"],
        "verbs": _READ,
    },
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": _READ},
]
FLANNEL_RULES: list[Json] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", *_READ]},
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
]
_CNI: Json = {
    "name": "cbr0",
    "cniVersion": "0.3.1",
    "plugins": [
        {"type": "flannel", "delegate": {"hairpinMode": True, "isDefaultGateway": True}},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}
_XTABLES_LOCK = {
    "name": "xtables-lock",
    "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"},
}
_RBAC = "rbac.authorization.k8s.io"


def _daemon_set(
    name: str,
    namespace: str,
    labels: dict[str, str],
    container: Json,
    volumes: list[Json],
    *,
    account: str,
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
                    "priorityClassName": "system-node-critical",
                    "serviceAccountName": account,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }


def _account(name: str, namespace: str) -> Json:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _role(name: str, rules: list[Json]) -> Json:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }


def _binding(name: str, role: str, account: str, namespace: str) -> Json:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
