"""The help of every program and sub-command ends with an example and the page of the manual."""

import re

import pytest

from edge_sidecars.runtime.cli.parser import MANUALS
from tests.unit.lib.runtime.test_bad_input import MAINS
from tests.unit.repository.checkout import ROOT

NODE = ("install", "uninstall", "prepare", "snapshot", "ipam-gc", "status", "doctor")
HELPS = [
    *((name, []) for name in MAINS if name != "livez"),
    *(("relay node", [command]) for command in NODE),
]


@pytest.mark.parametrize(("program", "command"), HELPS, ids=lambda it: str(it))
def test_the_help_has_an_example_and_the_page_of_the_manual(
    program: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main, _ = MAINS[program]
    try:
        status = main([*command, "--help"], {"KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    except SystemExit as error:
        status = int(str(error.code or 0))
    shown = capsys.readouterr().out
    assert status == 0
    example = re.search(r"\nExample:\n  (.+)\n", shown)
    manual = re.search(rf"\nManual: {MANUALS}/([a-z-]+/[a-z-]+)/\n$", shown)
    assert example is not None
    assert manual is not None
    assert (ROOT / "docs" / f"{manual[1]}.md").is_file()
    usage, _, _ = shown.partition("\nExample:")
    prog = re.search(r"usage: ([a-z -]+?) [\[-]", usage)
    assert prog is not None
    assert example[1].startswith(prog[1])
    for name in re.findall(r"--[a-z-]+", example[1]):
        assert name in usage
