"""The recorded faults fit the source; `make test-long` plays them."""

from collections import Counter
from dataclasses import replace

import pytest

from tools.mutants.overlay import run_mutant
from tools.mutants.table import Mutant, Outdated, read

KEPT = Mutant(
    "a limit that is not counted",
    "lib/edge_sidecars/runtime/backoff.py",
    "        self._failures += 1\n",
    "        self._failures += 0\n",
    ("tests/unit/lib/runtime/test_backoff.py::test_the_bound_doubles_up_to_the_longest",),
)


@pytest.mark.parametrize("mutant", read(), ids=lambda it: it.name)
def test_a_mutant_fits_the_source_and_names_tests_that_exist(mutant: Mutant) -> None:
    """Code that moves takes its mutants along: change `file` and `old` in mutants.toml."""
    mutant.source()
    assert mutant.tests
    mutant.check_tests()


def test_each_mutant_has_a_name_of_its_own() -> None:
    counts = Counter(it.name for it in read())
    assert counts.total() >= 60
    assert max(counts.values()) == 1


@pytest.mark.parametrize(
    "mutant",
    [
        replace(KEPT, old="no such text"),
        replace(KEPT, old="self"),
        replace(KEPT, file="lib/edge_sidecars/no_such.py"),
        replace(KEPT, new=KEPT.old),
    ],
)
def test_what_does_not_fit_the_source_is_an_error(mutant: Mutant) -> None:
    with pytest.raises(Outdated):
        mutant.source()


def test_a_test_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(Outdated):
        replace(KEPT, tests=(f"{KEPT.tests[0]}_no_more",)).check_tests()


def test_a_fault_fails_its_test_and_no_other() -> None:
    other = "tests/unit/lib/runtime/test_backoff.py::test_half_jitter_keeps_half_of_a_delay"
    outcome = run_mutant(replace(KEPT, tests=(*KEPT.tests, other)))
    assert outcome.ran == {*KEPT.tests, other}
    assert outcome.failed == set(KEPT.tests)
