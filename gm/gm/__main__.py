"""Starts sedna-gm: `run` by default, or the sub-commands `livez` and `status`.

Exit status: 0 after SIGTERM was obeyed, 2 for bad input (one line), anything else is a crash.
"""

import os
import sys

from edge_sidecars.runtime.cli.startup import start
from gm.config import DEFAULT_LISTEN


def main() -> None:
    # What gRPC logs by itself is in the exceptions too, in one line.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    commands = {"run": "gm.app", "status": "gm.status_command"}
    start(
        "sedna-gm", "gm.app", commands, extra="gm", listen=DEFAULT_LISTEN, variables=("GM_LISTEN",)
    )


def main_by_old_name() -> None:
    """The console script `gm` of 0.2, which goes with the next release."""
    sys.stderr.write("gm: this name is deprecated: call it sedna-gm\n")
    main()


if __name__ == "__main__":
    main()
