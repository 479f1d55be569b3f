"""What runs on the site: workloads that stay while their node is cut, and one that does not.

`shop` (a Deployment) and `ledger` (a StatefulSet) have the tolerations of the component
keep-while-cut with other seconds; `control` has none, and goes a few seconds after its node was
lost: where it does not go, nothing that was kept was kept by the pool.
"""

from typing import Any

from pool_sidecar.core.controller.node_state import DEAD
from tools.nemesis.pool.node import SITE_ZONE
from tools.nemesis.pool.objects import ZONE

Json = dict[str, Any]

SHOP, LEDGER, CONTROL = "shop", "ledger", "control"
KEPT = (SHOP, LEDGER)
REPLICAS = {SHOP: 6, LEDGER: 2, CONTROL: 3}
# Seconds: of those that are kept for `dead`, of the others for `unreachable`.
DEAD_SECONDS = 15
CONTROL_SECONDS = 5
UNREACHABLE = "node.kubernetes.io/unreachable"
_EXISTS = {"operator": "Exists", "effect": "NoExecute"}


def _tolerations(name: str) -> list[Json]:
    if name not in KEPT:
        return [{"key": UNREACHABLE, **_EXISTS, "tolerationSeconds": CONTROL_SECONDS}]
    dead = {"key": DEAD, **_EXISTS, "tolerationSeconds": DEAD_SECONDS}
    return [{"key": UNREACHABLE, **_EXISTS}, dead]


def _workload(name: str) -> Json:
    labels = {"app": name}
    pod = {
        "nodeSelector": {ZONE: SITE_ZONE},
        "terminationGracePeriodSeconds": 1,
        "tolerations": _tolerations(name),
        "containers": [{"name": "main", "image": f"example.com/{name}:1"}],
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": REPLICAS[name],
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _service(name: str) -> Json:
    spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
    return {"metadata": {"name": name}, "spec": spec}


_APPS, _SERVICES = "/apis/apps/v1/namespaces/{namespace}", "/api/v1/namespaces/{namespace}/services"
# Paths, of which the namespace is missing, and bodies.
MANIFESTS: tuple[tuple[str, Json], ...] = (
    *((_SERVICES, _service(name)) for name in REPLICAS),
    (f"{_APPS}/deployments", _workload(SHOP)),
    (f"{_APPS}/deployments", _workload(CONTROL)),
    (
        f"{_APPS}/statefulsets",
        {
            **_workload(LEDGER),
            "spec": {
                **_workload(LEDGER)["spec"],
                "serviceName": LEDGER,
                # One that is lost keeps no other one from coming.
                "podManagementPolicy": "Parallel",
            },
        },
    ),
)
