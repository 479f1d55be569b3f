"""Writes the generated parts of the documents; `--check` compares them instead.

Exit status: 0, or with `--check` 1 where a file differs from the source.
"""

import argparse
import difflib
import gc
import sys
from pathlib import Path

from tools.docs import diagram, interface, prometheus_rule, tables

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, print differences")
    is_check = parser.parse_args().check
    # The syntax trees of all modules stay until the end: a search for garbage walks all of them.
    gc.disable()
    status = 0
    written = {**tables.documents(ROOT), **diagram.pictures(ROOT)}
    written[prometheus_rule.NAME] = prometheus_rule.text(ROOT)
    for name, wanted in {**written, interface.NAME: interface.text(ROOT)}.items():
        path = ROOT / name
        found = path.read_text(encoding="utf-8") if path.exists() else ""
        if found == wanted:
            continue
        if is_check:
            lines = found.splitlines(), wanted.splitlines()
            print(*difflib.unified_diff(*lines, name, "the source", lineterm="", n=0), sep="\n")
            status = 1
        else:
            path.write_text(wanted, encoding="utf-8")
    if status:
        print(
            "docs: the documents differ from the source: `python -m tools.docs` writes them.\n"
            "docs: users rely on each line of interface.txt: a change of one goes into CHANGELOG.md"
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
