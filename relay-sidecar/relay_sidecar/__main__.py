"""Starts relay-sidecar: `run` by default, or `kubeconfig`, `livez` and `status`.

The only module that reads the environment and the command line. Exit status: 0 after SIGTERM was
obeyed, 2 for bad input (one line), anything else is a crash.
"""

import os
import sys

from sidecar import startup


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:1] == ["kubeconfig"]:
        try:
            from relay_sidecar.kubeconfig_command import main as kubeconfig
        except ModuleNotFoundError as error:
            sys.exit(startup.missing(error, program="relay-sidecar", extra="relay"))
        sys.exit(kubeconfig(arguments[1:], os.environ))
    if arguments[:1] == ["livez"]:
        from relay_sidecar.config.flags import DEFAULT_STATUS_LISTEN
        from sidecar.livez_command import main as livez

        listen = os.environ.get("RELAY_STATUS_LISTEN") or DEFAULT_STATUS_LISTEN
        sys.exit(livez(arguments[1:], program="relay-sidecar", listen=listen))
    if arguments[:1] == ["status"]:
        from relay_sidecar.status_command import main as status

        sys.exit(status(arguments[1:], os.environ))
    from sidecar.web import lean_aiohttp

    startup.begin()
    lean_aiohttp.load(os.environ)
    try:
        from relay_sidecar.run import main as run
    except ModuleNotFoundError as error:
        sys.exit(startup.missing(error, program="relay-sidecar", extra="relay"))

    sys.exit(run(arguments, os.environ))


if __name__ == "__main__":
    main()
