"""What others publish is named by content, so that it cannot change under its name."""

import re
from pathlib import Path

import pytest

from tests.unit.repository.checkout import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
REQUIREMENTS = sorted((ROOT / "tools/requirements").glob("*.txt"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda it: it.name)
def test_actions_are_named_by_commit_and_say_their_release(workflow: Path) -> None:
    text = workflow.read_text()
    used = re.findall(r"uses: (.+)", text)
    assert used
    for each in used:
        is_own = each.startswith("./")
        assert is_own or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


def test_each_locked_package_has_a_hash_the_pip_of_nodes_too() -> None:
    assert "pip.txt" in {it.name for it in REQUIREMENTS}
    for file in REQUIREMENTS:
        joined = re.sub(r"\\\n\s*", " ", file.read_text())
        for line in joined.splitlines():
            name = line.partition("#")[0].strip()
            assert not name or "--hash=sha256:" in name, f"{file.name}: {name}"
