"""The demo's main works only in a term that its elector vouches for, and the ledger shows it."""

from pathlib import Path

from tools.demo.elector.watcher import check_ledger
from tools.demo.main import Permission, boottime


def _document(token: int | None, *, valid_for: float = 60.0) -> dict[str, object]:
    valid_until = boottime() + valid_for
    return {"isLeader": token is not None, "fencingToken": token, "validUntil": valid_until}


def test_a_main_that_was_told_nothing_does_not_work(tmp_path: Path) -> None:
    permission = Permission(tmp_path / "ledger")
    permission.work()
    assert permission.units == 0
    assert check_ledger(tmp_path / "ledger") == (0, 0, 0)


def test_a_main_works_while_its_elector_leads(tmp_path: Path) -> None:
    permission = Permission(tmp_path / "ledger")
    permission.told(_document(7))
    permission.work()
    permission.told(_document(None))
    permission.work()
    assert check_ledger(tmp_path / "ledger") == (1, 1, 0)


def test_a_main_stops_by_its_own_clock_when_its_elector_falls_silent(tmp_path: Path) -> None:
    permission = Permission(tmp_path / "ledger")
    permission.told(_document(7, valid_for=-0.001))
    permission.work()
    assert not permission.is_working()
    assert permission.units == 0


def test_a_drained_term_is_over_for_the_main_and_the_next_one_is_not(tmp_path: Path) -> None:
    permission = Permission(tmp_path / "ledger")
    permission.told(_document(7))
    permission.drain()
    permission.told(_document(7))
    permission.work()
    assert permission.units == 0
    permission.told(_document(8))
    permission.work()
    assert permission.units == 1


def test_a_ledger_with_an_older_term_after_a_newer_one_is_found_out(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.write_text("7\n7\n9\n7\n9\n", encoding="ascii")
    assert check_ledger(ledger) == (5, 2, 1)
