"""Starts relay-sidecar: `run` by default, or `in-cluster`, `kubeconfig`, `livez`, `node`, `rbac`,
`status`. `in-cluster` and `node` are those of `relay_node`, which the relay itself never imports.

Exit status: 0 after SIGTERM was obeyed, 2 for bad input (one line), anything else is a crash.
"""

from edge_sidecars.runtime.cli.startup import start
from relay_sidecar.config import DEFAULT_STATUS_LISTEN


def main() -> None:
    commands = {
        "in-cluster": "relay_node.commands.in_cluster",
        "kubeconfig": "relay_sidecar.commands.kubeconfig",
        "node": "relay_node.commands.node",
        "rbac": "relay_sidecar.commands.rbac",
        "status": "relay_sidecar.commands.status",
    }
    start(
        "relay-sidecar",
        "relay_sidecar.app",
        commands,
        extra="relay",
        listen=DEFAULT_STATUS_LISTEN,
        variables=("RELAY_STATUS_LISTEN",),
    )


if __name__ == "__main__":
    main()
