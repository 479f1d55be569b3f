"""The tests that docs/security.md names exist."""

import re

from tests.unit.repository.checkout import ROOT


def test_each_test_that_the_security_model_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs/security.md").read_text()))
    assert len(named) > 5
    defined: set[str] = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        defined.update(re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE))
    assert named - defined == set()
