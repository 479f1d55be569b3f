"""Tells why a test failed that was run once more (pytest-rerunfailures)."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get("rerun", [])
    if reports:
        terminalreporter.section("FAILURES that were run once more")
    for report in reports:
        terminalreporter.section(report.nodeid, sep="_")
        terminalreporter.write_line(report.longreprtext)
