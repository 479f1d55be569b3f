"""`make lock-images`: the packages of Debian that images have, as Debian has them today.

Writes tools/release/images/*.debs. Exit status: 0, or 2 for bad input or what cannot be
fetched (one line).
"""

import itertools
import sys

from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.process import exit_on_bad_input
from tools.release.images.debian import KEEPALIVED, MACHINES, PYTHON, renew


def main() -> int:
    it = Parser(prog="make lock-images", description=(__doc__ or "").splitlines()[0])
    it.add_argument("--mirror", metavar="URL", default="", help="default: as this machine's own")
    with exit_on_bad_input("make lock-images"):
        mirror = it.parse_args().mirror
        for packages, architecture in itertools.product((PYTHON, KEEPALIVED), MACHINES):
            print(renew(packages, architecture, mirror=mirror).name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
