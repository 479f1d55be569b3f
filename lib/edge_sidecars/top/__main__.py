"""Starts edge-sidecars: the sub-command `top`, and `completion`.

Exit status: 0 after Ctrl-C or SIGTERM, 1 where `--once` found a component that does not answer, 2
for bad input (one line).
"""

import os
import sys

from edge_sidecars.runtime.version import VERSION

PROGRAM = "edge-sidecars"
BAD_INPUT = 2
_COMMANDS = ("top",)
_USAGE = """usage: {program} [--version] top ...

edge-sidecars top         what several components show, live, in a terminal or on one page
edge-sidecars completion  completion for bash, zsh or fish

Example:
  {program} top 127.0.0.1:4040 127.0.0.1:10551

Manual: {manuals}/how-to/look-at-it/
"""


def main() -> None:
    arguments = sys.argv[1:]
    command = arguments.pop(0) if arguments else ""
    match command:
        case "top":
            from edge_sidecars.top.top_command import main as top

            sys.exit(top(arguments, os.environ))
        case "completion":
            from edge_sidecars.runtime.cli.completion import completion

            sys.exit(completion(arguments, program=PROGRAM, commands=_COMMANDS))
        case "--version":
            sys.stdout.write(f"{PROGRAM} {VERSION}\n")
        case "-h" | "--help":
            from edge_sidecars.runtime.cli.parser import MANUALS

            sys.stdout.write(_USAGE.format(program=PROGRAM, manuals=MANUALS))
        case _:
            sys.exit(_unknown(command))


def _unknown(command: str) -> int:
    from edge_sidecars.runtime.cli.parser import did_you_mean

    known = (*_COMMANDS, "completion")
    what = f"{command!r:.80} is no sub-command" if command else "name a sub-command"
    hint = did_you_mean(command, known) if command else ""
    sys.stderr.write(f"{PROGRAM}: {what}{hint}: {', '.join(known)}\n")
    return BAD_INPUT


if __name__ == "__main__":
    main()
