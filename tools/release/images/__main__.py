"""`make lock-images`: the packages of Debian that images have, as Debian has them today.

Writes tools/release/images/ARCHITECTURE.debs. Exit status: 0, or 2 for bad input or what cannot be
fetched (one line).
"""

import sys

from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.process import exit_on_bad_input
from tools.release.images.debian import MACHINES, renew


def main() -> int:
    it = Parser(prog="make lock-images", description=(__doc__ or "").splitlines()[0])
    it.add_argument("--mirror", metavar="URL", default="", help="default: as this machine's own")
    with exit_on_bad_input("make lock-images"):
        mirror = it.parse_args().mirror
        for architecture in MACHINES:
            print(renew(architecture, mirror=mirror).name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
