"""The first moments of a process: which sub-command is wanted, and the import of its modules.

Guarantees: a signal ends the process as long as nothing has begun. (The kernel keeps from a
container's first process every signal that it has not asked for, and kubelet would wait for the
grace period's end.) Only what the sub-command needs is imported: a probe is a process of its own
every few seconds, and `status` works without the component's extra.
"""

import gc
import os
import signal
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from importlib import import_module

from edge_sidecars.runtime.version import VERSION

BAD_INPUT = 2
# What the process' environment says while aiohttp is imported. Where OpenSSL finds certificate
# authorities: SSL_CTX_set_default_verify_paths(3); frozenlist's documented variable.
_WHILE_IMPORTED = {
    "SSL_CERT_FILE": os.devnull,
    "SSL_CERT_DIR": os.devnull,
    "FROZENLIST_NO_EXTENSIONS": "1",
}


def start(
    program: str,
    app: str,
    commands: Mapping[str, str],
    *,
    extra: str,
    listen: str,
    variables: Sequence[str],
    host: str = "",
) -> None:
    """Runs the sub-command, by default `app`, which is also `run`, and exits with its status.

    `app` and the values of `commands` are modules with a `main(arguments, environ)`; `extra` has to
    be installed for them. `listen`: where the program answers /livez; the first of `variables` that
    is set says it instead; beside `host` it is the port. Each program has `completion` too.
    """
    arguments = sys.argv[1:]
    if arguments[:1] == ["--version"]:
        sys.stdout.write(f"{program} {VERSION}\n")
        sys.exit(0)
    known = ("run", *(name for name in commands if name != "run"), "livez")
    command = ""
    if arguments and not arguments[0].startswith("-"):
        command = arguments.pop(0)
        if command == "completion":
            from edge_sidecars.runtime.cli.completion import completion

            sys.exit(completion(arguments, program=program, commands=known))
        if command not in known:
            sys.exit(_unknown_command(command, known, program=program))
    if command == "livez":
        from edge_sidecars.runtime.cli.probe import livez

        variable = next((name for name in variables if os.environ.get(name)), "")
        address = os.environ[variable] if variable else listen
        if variable and host:
            address = f"{host}:{address}"
        sys.exit(livez(arguments, program=program, listen=address, variable=variable))
    module = commands.get(command, app)
    if module == app:
        from edge_sidecars.runtime.process import raise_descriptor_limit

        prepare_imports()
        raise_descriptor_limit()
        import_aiohttp(os.environ)
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        sys.exit(missing_extra(error, program=program, extra=extra))
    sys.exit(main(arguments, os.environ))


def _unknown_command(command: str, known: Sequence[str], *, program: str) -> int:
    from edge_sidecars.runtime.cli.parser import did_you_mean

    sys.stderr.write(
        f"{program}: {command!r:.80} is no sub-command{did_you_mean(command, known)}: "
        f"{', '.join((*known, 'completion'))}; `{program} --help` lists the flags\n"
    )
    return BAD_INPUT


def prepare_imports() -> None:
    """Precedes the imports; `process.install_signal_handlers` and `process.freeze_gc` end it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    # Importing makes garbage only to be kept; this is a fifth of the time to the first answer.
    gc.disable()


def import_aiohttp(environ: MutableMapping[str, str]) -> None:
    """Imports aiohttp without what no component uses; precedes every other import of it.
    `environ`: the process' own.

    aiohttp reads the machine's certificate authorities as it is imported, twice, for requests that
    name none: 50 ms of each start and 2 MiB for good, in every pod. A component that needs them
    makes a context of its own (`ssl.create_default_context`); a request without one trusts no
    server. The list type of aiohttp's signals has an extension in C++, whose run-time library costs
    1 MiB; no component has a signal on its hot path."""
    before = {name: environ.get(name) for name in _WHILE_IMPORTED}
    environ.update(_WHILE_IMPORTED)
    try:
        import aiohttp.connector  # noqa: F401
    finally:
        for name, value in before.items():
            if value is None:
                del environ[name]
            else:
                environ[name] = value


def missing_extra(error: ModuleNotFoundError, *, program: str, extra: str) -> int:
    """The exit status of a program whose extra was not installed, after one line that names it."""
    sys.stderr.write(
        f"{program}: the Python package {error.name} is missing: install the extra {extra}; in a "
        f"checkout: pip install '.[{extra}]'\n"
    )
    return BAD_INPUT
