"""Starts elector-sidecar: `run` by default, or `check`, `ctl`, `livez`, `rbac`, `status`, `shards`.

`check` imports nothing else: a probe starts it every second. Exit status: 0 after SIGTERM was
obeyed, 2 for bad input (one line), anything else is a crash.
"""

import os
import sys


def main() -> None:
    if sys.argv[1:2] == ["check"]:
        from elector_sidecar.commands.check import main as check

        sys.exit(check(sys.argv[2:], os.environ))
    from edge_sidecars.runtime.cli.startup import start
    from elector_sidecar.config import DEFAULT_LISTEN

    start(
        "elector-sidecar",
        "elector_sidecar.app",
        {
            "check": "elector_sidecar.commands.check",
            "ctl": "elector_sidecar.commands.ctl.command",
            "status": "elector_sidecar.commands.status",
            "shards": "elector_sidecar.commands.shards",
            "rbac": "elector_sidecar.commands.rbac",
        },
        extra="elector",
        listen=DEFAULT_LISTEN,
        variables=("ELECTOR_LISTEN",),
    )


def kubectl_plugin() -> None:
    """`kubectl-elector` in PATH is `kubectl elector`."""
    from elector_sidecar.commands.ctl.command import PLUGIN
    from elector_sidecar.commands.ctl.command import main as ctl

    sys.exit(ctl(sys.argv[1:], os.environ, program=PLUGIN))


def kubectl_completion() -> None:
    """`kubectl_complete-elector`, which kubectl runs for the completion of its plugin."""
    from elector_sidecar.commands.ctl.completion import main as complete

    sys.exit(complete(sys.argv[1:], os.environ))


if __name__ == "__main__":
    main()
