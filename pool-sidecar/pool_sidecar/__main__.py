"""Starts pool-sidecar: `run` (the member) by default, or `controller`, `livez`, `status`.

Exit status: 0 after SIGTERM was obeyed, 2 for bad input (one line), anything else is a crash.
"""

from edge_sidecars.runtime.cli.startup import start
from pool_sidecar.config import DEFAULT_LISTEN


def main() -> None:
    commands = {
        "controller": "pool_sidecar.controller_app",
        "status": "pool_sidecar.status_command",
    }
    start(
        "pool-sidecar",
        "pool_sidecar.member_app",
        commands,
        extra="pool",
        listen=DEFAULT_LISTEN,
        variables=("POOL_LISTEN",),
    )


if __name__ == "__main__":
    main()
