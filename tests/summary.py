"""What pytest's summary says beside its own: why a test failed that was run once more
(pytest-rerunfailures), and in one line for each reason how many tests were skipped, and what
installs what they lack."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reruns = terminalreporter.stats.get("rerun", [])
    if reruns:
        terminalreporter.section("FAILURES that were run once more")
    for report in reruns:
        terminalreporter.section(report.nodeid, sep="_")
        terminalreporter.write_line(report.longreprtext)
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", []))
    if reasons:
        terminalreporter.section("tests that were skipped")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} tests: {reason}")
    if any("is missing: apt-get" in reason for reason in reasons):
        terminalreporter.write_line("`make test-deps` installs all of these packages")


def _reason(report: pytest.TestReport) -> str:
    # Path, line and the reason of a skip.
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return text.removeprefix("Skipped: ").partition("\n")[0]
