"""A ticket says whose a handshake is, for minutes, and as long as its member is in the pool."""

from itertools import count

from pool_sidecar.core.tickets import RENEWED, VALID, Tickets


def tickets() -> Tickets:
    numbers = count()
    return Tickets(lambda: f"t{next(numbers)}")


def test_a_ticket_is_of_the_member_that_it_was_given_to() -> None:
    given = tickets()
    mine, others = given.of("n1", 0.0), given.of("n2", 0.0)
    assert (given.owner(mine, 1.0), given.owner(others, 1.0)) == ("n1", "n2")
    assert given.owner("", 1.0) is None
    assert given.of("n1", RENEWED - 1) == mine


def test_the_old_ticket_is_good_while_a_member_gets_the_next_and_no_longer() -> None:
    given = tickets()
    old = given.of("n1", 0.0)
    new = given.of("n1", RENEWED)
    assert new != old
    assert given.owner(old, VALID - 1) == given.owner(new, VALID - 1) == "n1"
    assert given.owner(old, VALID) is None
    assert given.owner(new, VALID) == "n1"


def test_who_left_the_pool_has_no_ticket() -> None:
    given = tickets()
    left, stays = given.of("n1", 0.0), given.of("n2", 0.0)
    given.keep({"n2"})
    assert given.owner(left, 1.0) is None
    assert given.owner(stays, 1.0) == "n2"
    assert given.of("n1", 1.0) != left
