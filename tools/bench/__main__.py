"""python -m tools.bench elector|relay|gm|node|shards|pool [--only FAMILY,…] [--runs N] [--out FILE]

Measures one component beside its reference on real servers, prints a table and writes JSON;
`python -m tools.bench NAME --help` has the families and options of each. Leaves no process behind,
also after Ctrl-C. Exit status: that of `runner.main`.
"""

import importlib
import sys

from tools.bench.runner import main

NAMES = ("elector", "relay", "gm", "node", "shards", "pool")

if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in NAMES:
        sys.exit(f"usage: python -m tools.bench {'|'.join(NAMES)} [--help]")
    sys.exit(main(name, importlib.import_module(f"tools.bench.{name}.bench").BENCH, sys.argv[2:]))
