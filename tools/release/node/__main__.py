"""`make release-node`: relay-sidecar for nodes that reach no package index, as one archive.

Writes dist/edge-sidecars-VERSION/relay-sidecar-node-VERSION-pythonX.Y-MACHINE.tar.gz: the locked
packages, pip, the CNI plugin sticky-ipam, and `install`. Exit status: 0, or 2 for bad input or what
cannot be fetched or built (one line).
"""

import sys
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.process import exit_on_bad_input
from edge_sidecars.runtime.version import VERSION
from tools.release.node.bundle import GOARCH, PYTHONS, Target, write_bundle

ROOT: Final = Path(__file__).parents[3]


def main() -> int:
    own = Target.of_this_machine()
    it = Parser(prog="make release-node", description=(__doc__ or "").splitlines()[0])
    it.add_argument(
        "--python", choices=PYTHONS, default=own.python, help="of the nodes; default %(default)s"
    )
    it.add_argument(
        "--machine",
        choices=sorted(GOARCH),
        default=own.machine,
        help="of the nodes, as `uname -m` says it; default %(default)s",
    )
    with exit_on_bad_input("make release-node"):
        given = it.parse_args()
        target = Target(given.python, given.machine)
        path = write_bundle(target, ROOT, ROOT / "dist" / f"edge-sidecars-{VERSION}")
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
