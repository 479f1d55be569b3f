"""Starts the demo: three pods elect a leader through their sidecars, and an edge loses its link.

With --mode: GMs and LCs at work in that mode, whose leader is killed and whose edge is cut off.
Everything is real: the API server, sidecars as processes, signals, links that are cut.
Exit status 0 only if each step that was begun, and not cut short by `q`, showed what it promises,
and nobody ever saw two leaders, a child made twice or a report lost; 1 otherwise, 130 after Ctrl-C.
Nothing is left behind.
"""

import argparse
import sys
from collections.abc import Sequence

from demo.cluster import CLUSTERS, Cluster
from demo.ending import Ending, Terminated
from demo.processes import ProcessGround
from demo.sedna.show import SednaShow
from demo.show import Show
from demo.timing import Timing
from tests.controlplane import build
from tests.pods.system import MODES

SIGNALLED = 128  # plus the signal's number, as shells count


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    timing = Timing(given.lease_duration, given.renew_interval, given.request_timeout)
    try:
        timing.check()
    except ValueError as error:
        parser.error(str(error))
    ending = Ending()
    ending.install()
    cluster = CLUSTERS[given.cluster]
    try:
        cluster.prepare()
        status = _show(given, cluster, timing, ending).run()
    except build.BuildError as error:
        sys.stderr.write(f"demo: {error}\n")
        return 1
    except Terminated as terminated:
        status = SIGNALLED + terminated.number
    if ending.number is not None:
        status = SIGNALLED + ending.number
    if status > SIGNALLED:
        sys.stderr.write("demo: ended; nothing is left running\n")
    return status


def _show(
    given: argparse.Namespace, cluster: Cluster, timing: Timing, ending: Ending
) -> Show | SednaShow:
    if given.mode is None:
        return Show(ProcessGround(cluster), timing, ending, pause=given.pause, is_plain=given.plain)
    return SednaShow(
        cluster, timing, ending, mode=given.mode, pause=given.pause, is_plain=given.plain
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make demo", description=(__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument(
        "--cluster",
        choices=list(CLUSTERS),
        default="local",
        help="the API server: local (relay-sidecar --origin local, the default), or kube "
        "(kube-apiserver and etcd, built from source the first time)",
    )
    parser.add_argument(
        "--mode",
        choices=MODES,
        help="GMs and LCs instead: LCs at the leader (active-standby), at any GM (active-active), "
        "or at the API through a relay of their own (relay)",
    )
    parser.add_argument(
        "--lease-duration",
        default="6s",
        help="default 6s, so that takeovers can be watched; the sidecar's own default is 15s",
    )
    parser.add_argument("--renew-interval", default="1s", help="default 1s")
    parser.add_argument("--request-timeout", default="2s", help="default 2s")
    parser.add_argument(
        "--pause", type=float, default=None, help="seconds between steps; default 2 on a terminal"
    )
    parser.add_argument("--plain", action="store_true", help="lines, also on a terminal")
    return parser


if __name__ == "__main__":
    sys.exit(main())
