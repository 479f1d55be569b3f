"""One node of a trial: `python -m tools.harness.pods.kubelet --node edge-a --root ./edge-a`.

Runs the pods that are bound to its node as processes of this machine, in the folder where their
image would let them begin, with paths of the node below `--root`. What they print is in
`--logs`. It ends at SIGINT and SIGTERM, and its pods with it.
"""

import argparse
import signal
from pathlib import Path

from tools.harness.pods.kubelet.node_processes import Machine
from tools.harness.pods.kubelet.pod_plan import PodPlan
from tools.harness.pods.kubelet.stand_in import Kubelet
from tools.harness.pods.wire.caller import Caller


def main() -> None:
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(
        prog="python -m tools.harness.pods.kubelet", description=summary
    )
    parser.add_argument(
        "--server", default="http://127.0.0.1:10560", metavar="URL", help="default %(default)s"
    )
    parser.add_argument("--node", required=True, metavar="NAME", help="made if it is missing")
    parser.add_argument("--root", required=True, type=Path, metavar="DIR", help="its file system")
    parser.add_argument("--image", type=Path, metavar="DIR", help="where workers begin")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="default: ROOT/logs")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Kubelet(
        Caller(arguments.server),
        [arguments.node],
        logs=arguments.logs or arguments.root / "logs",
        plan_of=lambda pod: PodPlan(is_process=True),
        machines={arguments.node: Machine(arguments.root.resolve())},
        folder=arguments.image,
    ):
        try:
            signal.pause()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
