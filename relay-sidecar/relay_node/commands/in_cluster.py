"""`relay-sidecar in-cluster`: leads in-cluster clients of a pod to a relay, unchanged.

The relay is the node's, or with `--serving` one in the pod. Clients read ca.crt, token and
namespace in a directory that Kubernetes mounts, and dial KUBERNETES_SERVICE_HOST. This makes such a
directory with the CA of the relay, and keeps it fresh while kubelet renews the token. What is there
stays where a source is gone. No token is logged.
"""

import argparse
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.options import SERVICE_ACCOUNT_DIR, Options, Parser
from edge_sidecars.runtime.cli.program import run_command
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.log import fields, logger, setup, sparing
from relay_node.in_cluster.service_account import NotThere, Sources, publish
from relay_sidecar.config import PREFIX

PROG: Final = "relay-sidecar in-cluster"
# Where `relay-sidecar node` keeps what clients have to read.
AUTHORITY: Final = "/var/lib/relay-sidecar/public/ca.crt"
# Seconds between two looks: kubelet renews a token when a fifth of its life is left, two minutes at
# least, and clients read it once a minute; in the first second a pod waits for it.
INTERVAL: Final = 2.0
WAITING_INTERVAL: Final = 0.1
ENDING: Final = (signal.SIGTERM, signal.SIGINT)


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    # Held back, so that a signal ends no write; also those of a container's first process.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        return run_command(PROG, lambda: _run(arguments, environ))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(arguments: list[str], environ: Mapping[str, str]) -> int:
    given = vars(_parser().parse_args(arguments))
    options = Options(given, environ, prefix=PREFIX)
    with options.naming_variables():
        setup(options.choice("log_format", "text", "json"), "info")
        sources, output = _sources(options), _output(options)
    return _keep_fresh(sources, output, is_once=bool(given["once"]))


def _parser() -> argparse.ArgumentParser:
    it = Parser(
        prog=PROG,
        example="relay-sidecar in-cluster --output /relay --once",
        manual="reference/relay",
        description="Writes the directory of in-cluster clients for this node's relay, or for "
        "one in this pod, and keeps it fresh until SIGTERM.",
        epilog="Mount it at /var/run/secrets/kubernetes.io/serviceaccount, and set "
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT to the relay's --pod-listen, in this "
        "pod to its --listen.",
    )
    for name, value, text in (
        ("output", "DIR", "to write ca.crt, token and namespace to"),
        ("service-account-dir", "DIR", f"where kubelet puts them; default {SERVICE_ACCOUNT_DIR}"),
        ("certificate-authority", "FILE", f"of the relay; default {AUTHORITY}"),
        ("namespace", "NAMESPACE", "default: that of --service-account-dir"),
        ("log-format", "text|json", "default text"),
    ):
        it.add_argument(f"--{name}", metavar=value, help=text)
    it.add_argument(
        "--serving",
        metavar="FILE",
        help="for a relay in this pod: its certificate for 127.0.0.1 with the key, made where it "
        "is not there, and handed out",
    )
    it.add_argument("--once", action="store_true", help="end when all is there")
    return it


def _sources(options: Options) -> Sources:
    return Sources(
        _authority(options),
        Path(options.text("service_account_dir") or SERVICE_ACCOUNT_DIR),
        options.text("namespace"),
    )


def _authority(options: Options) -> Path:
    serving, named = options.text("serving"), options.text("certificate_authority")
    if not serving:
        return Path(named or AUTHORITY)
    if named:
        raise BadInput(
            f"--serving {serving} makes what --certificate-authority {named} names: drop one"
        )
    from relay_node.in_cluster.loopback_certificate import ensure_loopback_serving

    return ensure_loopback_serving(Path(serving))


def _output(options: Options) -> Path:
    output = options.text("output")
    if not output:
        raise BadInput("--output is missing: name the directory to write, like an emptyDir")
    source = Path(options.text("service_account_dir") or SERVICE_ACCOUNT_DIR)
    if Path(output).resolve() == source.resolve():
        raise BadInput(f"--output {output} is --service-account-dir itself: name another")
    if Path(output).exists() and not Path(output).is_dir():
        raise BadInput(f"--output {output} is no directory: name one, like an emptyDir")
    return Path(output)


def _keep_fresh(sources: Sources, output: Path, *, is_once: bool) -> int:
    """The exit status: 0, or 1 after a signal before --once was done."""
    interval = WAITING_INTERVAL
    while True:
        try:
            if publish(output, sources.read()):
                logger.info("service account directory written", extra=fields(directory=output))
            if is_once:
                return 0
            interval = INTERVAL
        except NotThere as error:
            if sparing.allows(str(error)):
                logger.warning("service account directory waits", extra=fields(error=error))
        if signal.sigtimedwait(ENDING, interval) is not None:
            return int(is_once)
