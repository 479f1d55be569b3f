"""Starts relay-sidecar: `run` by default, or `kubeconfig`, `livez` and `status`.

Exit status: 0 after SIGTERM was obeyed, 2 for bad input (one line), anything else is a crash.
"""

from edge_sidecars.runtime.startup import start
from relay_sidecar.config import DEFAULT_STATUS_LISTEN


def main() -> None:
    start(
        "relay-sidecar",
        extra="relay",
        app="relay_sidecar.app",
        listen=lambda environ: environ.get("RELAY_STATUS_LISTEN") or DEFAULT_STATUS_LISTEN,
        commands={
            "kubeconfig": "relay_sidecar.commands.kubeconfig",
            "status": "relay_sidecar.commands.status",
        },
    )


if __name__ == "__main__":
    main()
