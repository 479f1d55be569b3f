"""Starts lc: `run` by default, or the sub-commands `livez` and `status`.

The only module that reads the environment and the command line. Exit status: 0 after SIGTERM was
obeyed, 2 for bad input (one line), anything else is a crash.
"""

import sys


def main() -> None:
    import os

    arguments = sys.argv[1:]
    if arguments[:1] == ["livez"]:
        from edge_sidecars.runtime.livez_command import main as livez
        from lc.config.flags import DEFAULT_BIND_PORT

        port = os.environ.get("LC_BIND_PORT") or os.environ.get("BIND_PORT") or DEFAULT_BIND_PORT
        sys.exit(livez(arguments[1:], program="lc", listen=f"127.0.0.1:{port}"))
    if arguments[:1] == ["status"]:
        from lc.status_command import main as status

        sys.exit(status(arguments[1:], os.environ))
    from edge_sidecars.runtime import startup
    from edge_sidecars.runtime.web import aiohttp_import

    startup.prepare_imports()
    aiohttp_import.import_aiohttp(os.environ)
    try:
        from lc.app import main as run
    except ModuleNotFoundError as error:
        sys.exit(startup.missing_extra(error, program="lc", extra="lc"))

    sys.exit(run(arguments[1:] if arguments[:1] == ["run"] else arguments, os.environ))


if __name__ == "__main__":
    main()
