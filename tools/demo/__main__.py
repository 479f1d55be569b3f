"""Starts the demo: three pods elect a leader through their sidecars, and an edge loses its link.

With --containers: pods are containers of the images, in networks of a Docker engine.
Everything is real: the API server, sidecars, signals, links that are cut.
Exit status 0 only if each step that was begun, and not cut short by `q`, showed what it promises,
and no observer saw two leaders at once; 1 otherwise, 130 after Ctrl-C.
Nothing is left behind.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.process import exit_on_bad_input
from edge_sidecars.runtime.version import VERSION
from tools.demo.cluster import CLUSTERS, LOCAL, Cluster
from tools.demo.elector.processes import ProcessBackend
from tools.demo.elector.show import Show
from tools.demo.environment import Backend, Unprepared
from tools.demo.shutdown import Shutdown, Terminated
from tools.demo.timing import Timing
from tools.harness.controlplane import build

SIGNALLED = 128  # plus the signal's number, as shells count


def main(arguments: Sequence[str] | None = None) -> int:
    with exit_on_bad_input("make demo"):
        given, timing = _given(arguments)
    shutdown = Shutdown()
    shutdown.install()
    cluster = CLUSTERS[given.cluster]
    try:
        cluster.prepare()
        with ExitStack() as stack:
            status = _show(given, cluster, timing, shutdown, stack).run()
    except (build.BuildError, Unprepared) as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except Terminated as terminated:
        status = SIGNALLED + terminated.number
    if shutdown.number is not None:
        status = SIGNALLED + shutdown.number
    if status > SIGNALLED:
        sys.stderr.write("demo: ended; nothing is left running\n")
    return status


def _given(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, Timing]:
    """Raises `BadInput`."""
    parser = _parser()
    given = parser.parse_args(arguments)
    timing = Timing(given.lease_duration, given.renew_interval, given.request_timeout)
    try:
        timing.check()
    except ValueError as error:
        parser.error(str(error))
    return given, timing


def _show(
    given: argparse.Namespace,
    cluster: Cluster,
    timing: Timing,
    shutdown: Shutdown,
    stack: ExitStack,
) -> Show:
    """What it needs beforehand ends with the stack. `tools/requirements/demo.txt` lacks what is
    imported here (Docker)."""
    backend: Backend = ProcessBackend(cluster)
    if given.containers:
        from tools.demo.elector.containers import container_backend

        backend = stack.enter_context(container_backend(given.cluster, cluster.title))
        stack.callback(_remove, shutdown)
    return Show(
        backend, timing, shutdown, pause=given.pause, is_plain=given.plain, stays=given.stay
    )


def _remove(shutdown: Shutdown) -> None:
    shutdown.finish()
    sys.stderr.write("demo: removing containers and networks\n")


def _parser() -> Parser:
    parser = Parser(prog="make demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action="version", version=f"edge-sidecars {VERSION}")
    parser.add_argument(
        "--cluster",
        choices=list(CLUSTERS),
        default=LOCAL,
        metavar="|".join(CLUSTERS),
        help="the API server: local (one process, the default), or kube "
        "(kube-apiserver and etcd, built from source the first time)",
    )
    parser.add_argument(
        "--containers",
        action="store_true",
        help="pods as containers of the images, which are built first (a minute or two, the first "
        "time); needs a Docker engine, or dockerd and root",
    )
    parser.add_argument(
        "--lease-duration",
        default="6s",
        metavar="DURATION",
        help="default 6s, so that takeovers can be watched; the sidecar's own default is 15s",
    )
    parser.add_argument("--renew-interval", default="1s", metavar="DURATION", help="default 1s")
    parser.add_argument("--request-timeout", default="2s", metavar="DURATION", help="default 2s")
    parser.add_argument(
        "--pause",
        type=float,
        default=None,
        metavar="SECONDS",
        help="seconds between steps; default 2 on a terminal",
    )
    parser.add_argument(
        "--stay",
        action="store_true",
        help="after the summary its pages stay open",
    )
    parser.add_argument("--plain", action="store_true", help="lines, also on a terminal")
    return parser


if __name__ == "__main__":
    sys.exit(main())
