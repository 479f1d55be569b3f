"""A plugin of pytest: writes the outcome of each test to the file that MUTANT_VERDICT names.

Drawn tests do not shrink what they find: only whether they fail matters.
"""

import json
import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

settings.register_profile(
    "mutants",
    parent=settings.get_profile(settings.get_current_profile_name()),
    phases=(Phase.explicit, Phase.generate),
    database=None,
    print_blob=False,
)
# tests/conftest.py derives its own profile from the present one.
settings.load_profile("mutants")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.failed:
        line = [report.nodeid, report.when, report.outcome, report.longreprtext[-500:]]
        with Path(os.environ["MUTANT_VERDICT"]).open("a") as file:
            file.write(json.dumps(line) + "\n")
