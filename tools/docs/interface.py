"""interface.txt: what users and other releases rely on, as a file whose changes show in a diff.

Flags with their variables, defaults and help; metrics; log messages with their fields; tables of
SQL; variables and options of sub-commands that the code names. Where a line comes from is left
out: moving code changes nothing here.
"""

from collections.abc import Iterator
from pathlib import Path

from tools.docs.source import LIBRARY, PROGRAMS, all_logged, constants, flags, metrics, metrics_in

NAME = "tools/docs/interface.txt"


def text(root: Path) -> str:
    lines = [f"# Written by `python -m tools.docs`: {(__doc__ or '').splitlines()[0]}"]
    for name in PROGRAMS:
        lines += ["", *_program(name, root)]
    shared = [
        *metrics_in(root / LIBRARY / "runtime/process_metrics.py"),
        *metrics_in(root / LIBRARY / "runtime/web/listener_metrics.py"),
    ]
    lines += ["", *sorted(f"metric {it.name} {it.kind}: {it.text}" for it in shared)]
    logged = {
        f'log {it.level} "{it.message}" {" ".join(it.fields)}'.rstrip() for it in all_logged(root)
    }
    own = {
        f"option {it}"
        for program in PROGRAMS.values()
        for it in program.parser._option_string_actions
    }
    lines += ["", *sorted(logged), "", *sorted(set(constants(root)) - own)]
    return "\n".join(lines) + "\n"


def _program(name: str, root: Path) -> Iterator[str]:
    program = PROGRAMS[name]
    yield f"{program.parser.prog}: {program.parser.description}"
    yield f"{program.parser.prog}: {program.parser.epilog}"
    for it in flags(program):
        spelled = ", ".join(it.options)
        twin = program.prefix + it.options[0].removeprefix("--").replace("-", "_").upper()
        default = f" [{it.default}]" if it.default else ""
        yield f"{name} flag {spelled} {it.value} ({twin}){default}: {it.text}"
    for metric in sorted(metrics(root, program), key=lambda it: it.name):
        yield f"{name} metric {metric.name} {metric.kind}: {metric.text}"
