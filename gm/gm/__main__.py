"""Starts gm: `run` by default, or the sub-commands `livez` and `status`.

Exit status: 0 after SIGTERM was obeyed, 2 for bad input (one line), anything else is a crash.
"""

from edge_sidecars.runtime.startup import start
from gm.config import DEFAULT_LISTEN


def main() -> None:
    start(
        "gm",
        extra="gm",
        app="gm.app",
        listen=lambda environ: environ.get("GM_LISTEN") or DEFAULT_LISTEN,
        commands={"run": "gm.app", "status": "gm.status_command"},
    )


if __name__ == "__main__":
    main()
