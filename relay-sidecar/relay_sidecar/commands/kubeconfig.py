"""`relay-sidecar kubeconfig`: a kubeconfig that points to the relay in this pod.

In-cluster clients always dial https://KUBERNETES_SERVICE_HOST; with this file mounted and named in
KUBECONFIG they come here. It is JSON, which every reader of kubeconfigs takes, since JSON is YAML.
It holds no secret: a token is named by its file.
"""

import argparse
import base64
import json
import os
import ssl
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from edge_sidecars.runtime.cli.options import SERVICE_ACCOUNT_DIR, Options, Parser, pod_namespace
from edge_sidecars.runtime.cli.program import run_command
from edge_sidecars.runtime.cli.values import BadInput, address, url
from relay_sidecar.config import DEFAULT_LISTEN, PREFIX

PROG = "relay-sidecar kubeconfig"
NAME = "relay"


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    return run_command(PROG, lambda: _print(arguments, environ))


def _print(arguments: list[str], environ: Mapping[str, str]) -> None:
    given = vars(_parser().parse_args(arguments))
    options = Options(given, environ, prefix=PREFIX)
    with options.naming_variables():
        content = json.dumps(_content(options, environ), indent=2) + "\n"
    if given["output"]:
        _write(Path(given["output"]), content)
    else:
        sys.stdout.write(content)


def _parser() -> argparse.ArgumentParser:
    it = Parser(
        prog=PROG,
        example="relay-sidecar kubeconfig --listen 127.0.0.1:10550 --output relay.kubeconfig",
        manual="reference/relay",
        description="Prints a kubeconfig that points to the relay in this pod.",
        epilog="Give it the flags, or the environment, of the relay itself.",
    )
    for name, value, text in (
        ("listen", "HOST:PORT", f"of the relay; default {DEFAULT_LISTEN}"),
        ("url", "URL", "instead of that of --listen"),
        ("tls-cert-file", "FILE", "of the relay: https, and the authority unless named"),
        ("certificate-authority", "FILE", "that issued --tls-cert-file"),
        ("access", "own|caller", "of the relay; caller: with the pod's service account token"),
        ("local-token-file", "FILE", "of the relay, where the reader has it too"),
        ("service-account-dir", "DIR", f"default {SERVICE_ACCOUNT_DIR}"),
        ("namespace", "NAMESPACE", "of the context; default: the pod's own"),
    ):
        it.add_argument(f"--{name}", metavar=value, help=text)
    it.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    return it


def _content(options: Options, environ: Mapping[str, str]) -> dict[str, object]:
    folder = Path(options.text("service_account_dir") or SERVICE_ACCOUNT_DIR)
    cluster: dict[str, object] = {"server": _server(options)}
    user: dict[str, object] = {}
    context: dict[str, object] = {"cluster": NAME, "user": NAME}
    authority = options.text("certificate_authority") or options.text("tls_cert_file")
    if authority:
        cluster["certificate-authority-data"] = _authority(Path(authority))
    token_file = options.text("local_token_file")
    if options.choice("access", "own", "caller") == "caller":
        token_file = str(folder / "token")
    if token_file:
        user["tokenFile"] = str(Path(token_file).absolute())
        if not str(cluster["server"]).startswith("https:"):
            # client-go, tools/clientcmd/client_config.go.
            sys.stderr.write(
                f"{PROG}: Go clients send no token over http: give the relay a --tls-cert-file\n"
            )
    elif str(cluster["server"]).startswith("https:"):
        # Else kubectl asks for a name at the terminal (tools/clientcmd/client_config.go,
        # canIdentifyUser). The relay takes no notice of it.
        user["username"] = NAME
    namespace = options.text("namespace") or pod_namespace(environ, folder)
    if namespace:
        context["namespace"] = namespace
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": context}],
        "current-context": NAME,
    }


def _server(options: Options) -> str:
    given = options.parsed("url", url, "")
    listen = options.parsed("listen", address, address(DEFAULT_LISTEN))
    scheme = "https" if options.text("tls_cert_file") else "http"
    if given and urlsplit(given).scheme != scheme:
        raise BadInput(f"--url {given} is not {scheme}, as --tls-cert-file says that the relay is")
    return given or f"{scheme}://{listen.dialled}"


def _authority(path: Path) -> str:
    """What clients trust; the certificate itself, where no other one issued it."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
        return base64.b64encode(path.read_bytes()).decode()
    except (OSError, ValueError) as error:
        given = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadInput(f"{path}: {given}; name a PEM certificate") from error


def _write(path: Path, content: str) -> None:
    """Whole or not at all: a client may be reading the one before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(content, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise BadInput(
            f"--output {path}: {error.strerror or error}; name a file in a folder that is there"
        ) from error
