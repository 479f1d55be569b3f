"""Starts gm: `run` by default, or the sub-commands `livez` and `status`.

The only module that reads the environment and the command line. Exit status: 0 after SIGTERM was
obeyed, 2 for bad input (one line), anything else is a crash.
"""

import os
import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["livez"]:
        from edge_sidecars.runtime.livez_command import main as livez
        from gm.config.flags import DEFAULT_LISTEN

        listen = os.environ.get("GM_LISTEN") or DEFAULT_LISTEN
        sys.exit(livez(arguments[1:], program="gm", listen=listen))
    if arguments[:1] == ["status"]:
        from gm.status_command import main as status

        sys.exit(status(arguments[1:], os.environ))
    from edge_sidecars.runtime import startup
    from edge_sidecars.runtime.web import aiohttp_import

    startup.prepare_imports()
    aiohttp_import.import_aiohttp(os.environ)
    try:
        from gm.app import main as run
    except ModuleNotFoundError as error:
        sys.exit(startup.missing_extra(error, program="gm", extra="gm"))

    sys.exit(run(arguments[1:] if arguments[:1] == ["run"] else arguments, os.environ))


if __name__ == "__main__":
    main()
