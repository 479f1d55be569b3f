"""Starts the demo: three pods elect a leader through their sidecars, and an edge loses its link.

With --mode: GMs and LCs at work in that mode, whose leader is killed and whose edge is cut off;
`shards`: all GMs decide, each about the objects of its shards, one is killed and one is added;
`pool`: nodes of a site lend each other their links, one is cut, one is killed, all are cut.
With --containers: pods are containers of the images, in networks of a Docker engine.
Everything is real: the API server, sidecars, signals, links that are cut.
Exit status 0 only if each step that was begun, and not cut short by `q`, showed what it promises,
and nobody ever saw two leaders, a child made twice, a report lost, or a pod that moved though its
node lived; 1 otherwise, 130 after Ctrl-C.
Nothing is left behind.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.process import exit_on_bad_input
from edge_sidecars.runtime.version import VERSION
from tools.demo.cluster import CLUSTERS, KUBE, LOCAL, POOL_PROGRAMS, Cluster, build_programs
from tools.demo.elector.processes import ProcessBackend
from tools.demo.elector.show import Show
from tools.demo.environment import Backend, Unprepared
from tools.demo.pool import POOL
from tools.demo.sedna import DEMO_MODES
from tools.demo.shutdown import Shutdown, Terminated
from tools.demo.timing import Timing
from tools.harness.controlplane import build

if TYPE_CHECKING:
    from tools.demo.pool.show import PoolShow
    from tools.demo.sedna.show import SednaShow

SIGNALLED = 128  # plus the signal's number, as shells count


def main(arguments: Sequence[str] | None = None) -> int:
    with exit_on_bad_input("make demo"):
        given, timing = _given(arguments)
    shutdown = Shutdown()
    shutdown.install()
    cluster = CLUSTERS[given.cluster]
    try:
        cluster.prepare()
        if given.mode == POOL:
            build_programs(POOL_PROGRAMS)
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
    if given.containers and given.mode:
        what = "nodes of a pool" if given.mode == POOL else "GMs and LCs"
        parser.error(
            f"--containers (CONTAINERS=) shows electors and a relay, --mode {given.mode} (MODE=) "
            f"{what} as processes: leave out one of them"
        )
    if given.mode == POOL and given.cluster not in (None, KUBE):
        parser.error(
            f"--mode pool (MODE=) needs what evicts, which --cluster {given.cluster} (CLUSTER=) "
            "has not: leave that out"
        )
    if given.cluster is None:
        given.cluster = KUBE if given.mode == POOL else LOCAL
    return given, timing


def _show(
    given: argparse.Namespace,
    cluster: Cluster,
    timing: Timing,
    shutdown: Shutdown,
    stack: ExitStack,
) -> "Show | SednaShow | PoolShow":
    """What it needs beforehand ends with the stack. `tools/requirements/demo.txt` lacks what is
    imported here (gRPC, Docker)."""
    pause, is_plain = given.pause, given.plain
    if given.mode == POOL:
        from tools.demo.pool.show import PoolShow

        return PoolShow(cluster.title, timing, shutdown, pause=pause, is_plain=is_plain)
    if given.mode is not None:
        from tools.demo.sedna.show import SednaShow

        return SednaShow(cluster, timing, shutdown, mode=given.mode, pause=pause, is_plain=is_plain)
    backend: Backend = ProcessBackend(cluster)
    if given.containers:
        from tools.demo.elector.containers import container_backend

        backend = stack.enter_context(container_backend(given.cluster, cluster.title))
        stack.callback(_remove, shutdown)
    return Show(backend, timing, shutdown, pause=pause, is_plain=is_plain)


def _remove(shutdown: Shutdown) -> None:
    shutdown.finish()
    sys.stderr.write("demo: removing containers and networks\n")


def _parser() -> Parser:
    parser = Parser(prog="make demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action="version", version=f"edge-sidecars {VERSION}")
    parser.add_argument(
        "--cluster",
        choices=list(CLUSTERS),
        metavar="|".join(CLUSTERS),
        help="the API server: local (one process, the default), or kube "
        "(kube-apiserver and etcd, built from source the first time; of mode pool the default)",
    )
    parser.add_argument(
        "--mode",
        choices=(*DEMO_MODES, POOL),
        metavar="|".join((*DEMO_MODES, POOL)),
        help="GMs and LCs instead: LCs at the leader (active-standby), at any GM (active-active), "
        "or at the API through a relay of their own (relay); shards: all GMs decide, each about "
        "the objects of its shards. Or pool: nodes that lend each other their links",
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
    parser.add_argument("--plain", action="store_true", help="lines, also on a terminal")
    return parser


if __name__ == "__main__":
    sys.exit(main())
