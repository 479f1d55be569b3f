"""What counts as a broken promise about who owns the address."""

from math import inf

from tools.harness.pods.observers.observer import Ready
from tools.nemesis.vip.ownership import Spell, owners, seen_twice, shared, spells, unfounded


def told(*changes: tuple[float, bool]) -> list[dict[str, object]]:
    return [{"at": at, "owned": owned} for at, owned in changes]


def ready(node: str, at: float, *, valid_for: float = 4.0) -> Ready:
    return Ready(node, f"{node}_1", 7, at, at + 0.01, at + valid_for)


def test_what_the_kernels_told_becomes_spells_in_order() -> None:
    lines = {
        "a": told((0, False), (5, True), (9, False), (20, True)),
        "b": told((0, False), (10, True), (11, True), (15, False), (16, False)),
    }
    found = spells(lines)
    assert found == [Spell("a", 5, 9), Spell("b", 10, 15), Spell("a", 20, inf)]
    assert [owners(found, at) for at in (4, 5, 9, 12, 30)] == [[], ["a"], [], ["b"], ["a"]]


def test_two_owners_at_one_time_are_found_one_after_the_other_is_not() -> None:
    assert shared([Spell("a", 0, 5), Spell("b", 5, 9), Spell("a", 10, inf)]) == []
    assert [each.at for each in shared([Spell("a", 0, 5), Spell("b", 4, 9)])] == [4]
    long = [Spell("a", 0, inf), Spell("b", 4, 9), Spell("c", 20, 21)]
    assert [each.at for each in shared(long)] == [4, 20]


def test_two_answers_to_one_question_are_found() -> None:
    asked = [{"at": 1.0, "owners": ["x"]}, {"at": 2.0, "owners": []}, {"at": 3.0, "owners": "xy"}]
    assert [each.at for each in seen_twice(asked)] == [3.0]


def test_an_owner_whose_elector_goes_on_saying_so_is_in_order() -> None:
    answers = [ready("a", float(at)) for at in range(1, 10)]
    assert unfounded([Spell("a", 2.5, 10.5)], answers, hold=2) == []
    assert unfounded([Spell("a", 2.5, inf)], answers, hold=2) == []


def test_an_owner_that_never_led_is_found() -> None:
    assert len(unfounded([Spell("a", 2.5, 3)], [ready("b", 1)], hold=2)) == 1


def test_an_owner_that_keeps_the_address_longer_than_the_checks_take_is_found() -> None:
    assert unfounded([Spell("a", 2.5, 4.9)], [ready("a", 1), ready("a", 3)], hold=2) == []
    assert len(unfounded([Spell("a", 2.5, 5.1)], [ready("a", 1), ready("a", 3)], hold=2)) == 1
    between = [ready("a", 1), ready("a", 3), ready("a", 6), ready("a", 7)]
    assert len(unfounded([Spell("a", 2.5, 7.5)], between, hold=2)) == 1


def test_an_owner_after_the_end_of_its_validity_is_found_however_fresh_the_answer() -> None:
    answers = [ready("a", 1), ready("a", 3, valid_for=0.5)]
    assert len(unfounded([Spell("a", 2.5, 4)], answers, hold=2)) == 1
