"""Starts relay-sidecar: `run` by default, or `kubeconfig`, `livez` and `status`.

The only module that reads the environment and the command line. Exit status: 0 after SIGTERM was
obeyed, 2 for bad input (one line), anything else is a crash.
"""

import os
import sys

from edge_sidecars.runtime import startup


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["kubeconfig"]:
        try:
            from relay_sidecar.commands.kubeconfig import main as kubeconfig
        except ModuleNotFoundError as error:
            sys.exit(startup.missing_extra(error, program="relay-sidecar", extra="relay"))
        sys.exit(kubeconfig(arguments[1:], os.environ))
    if arguments[:1] == ["livez"]:
        from edge_sidecars.runtime.livez_command import main as livez
        from relay_sidecar.config.flags import DEFAULT_STATUS_LISTEN

        listen = os.environ.get("RELAY_STATUS_LISTEN") or DEFAULT_STATUS_LISTEN
        sys.exit(livez(arguments[1:], program="relay-sidecar", listen=listen))
    if arguments[:1] == ["status"]:
        from relay_sidecar.commands.status import main as status

        sys.exit(status(arguments[1:], os.environ))
    from edge_sidecars.runtime.web import aiohttp_import

    startup.prepare_imports()
    aiohttp_import.import_aiohttp(os.environ)
    try:
        from relay_sidecar.app import main as run
    except ModuleNotFoundError as error:
        sys.exit(startup.missing_extra(error, program="relay-sidecar", extra="relay"))

    sys.exit(run(arguments, os.environ))


if __name__ == "__main__":
    main()
