"""Starts sedna-lc: `run` by default, or the sub-commands `livez` and `status`.

Exit status: 0 after SIGTERM was obeyed, 2 for bad input (one line), anything else is a crash.
"""

import sys

from edge_sidecars.runtime.cli.startup import start
from lc.config import DEFAULT_BIND_PORT

_HOST = "127.0.0.1"


def main() -> None:
    commands = {"run": "lc.app", "status": "lc.status_command"}
    start(
        "sedna-lc",
        "lc.app",
        commands,
        extra="lc",
        listen=f"{_HOST}:{DEFAULT_BIND_PORT}",
        variables=("LC_BIND_PORT", "BIND_PORT"),
        host=_HOST,
    )


def main_by_old_name() -> None:
    """The console script `lc` of 0.2, which goes with the next release."""
    sys.stderr.write("lc: this name is deprecated: call it sedna-lc\n")
    main()


if __name__ == "__main__":
    main()
