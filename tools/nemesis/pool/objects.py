"""Labels, names and conditions of the API objects of the site. Pure."""

from typing import Any

ZONE = "topology.kubernetes.io/zone"
CANDIDATE = "pool-candidate"


def condition(node: dict[str, Any], kind: str) -> str:
    """The status of a condition of a Node or Pod; "" without one."""
    conditions = node.get("status", {}).get("conditions", ())
    return next((str(it.get("status", "")) for it in conditions if it["type"] == kind), "")
