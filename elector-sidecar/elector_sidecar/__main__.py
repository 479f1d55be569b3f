"""Starts elector-sidecar: `run` by default, or the sub-commands `check`, `livez`, `status`.

The only module that reads the environment and the command line. `check` imports nothing else.
Exit status: 0 after SIGTERM was obeyed, 2 for bad input (one line), anything else is a crash.
"""

import sys


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["check"]:
        from elector_sidecar.check_command import main as check

        sys.exit(check(arguments[1:]))
    import os

    if arguments[:1] == ["livez"]:
        from edge_sidecars.runtime.livez_command import main as livez
        from elector_sidecar.config.flags import DEFAULT_LISTEN

        listen = os.environ.get("ELECTOR_LISTEN") or DEFAULT_LISTEN
        sys.exit(livez(arguments[1:], program="elector-sidecar", listen=listen))
    if arguments[:1] == ["status"]:
        from elector_sidecar.status_command import main as status

        sys.exit(status(arguments[1:], os.environ))
    from edge_sidecars.runtime import startup
    from edge_sidecars.runtime.web import aiohttp_import

    startup.prepare_imports()
    aiohttp_import.import_aiohttp(os.environ)
    try:
        from elector_sidecar.app import main as run
    except ModuleNotFoundError as error:
        sys.exit(startup.missing_extra(error, program="elector-sidecar", extra="elector"))

    sys.exit(run(arguments, os.environ))


if __name__ == "__main__":
    main()
