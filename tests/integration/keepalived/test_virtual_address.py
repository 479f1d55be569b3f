"""Real keepalived with the shipped configuration beside real electors: whose address it is.

That two nodes never own it, and none that does not lead, is checked at the end of each test by the
fixture, over all that the kernels told and a client saw.
"""

import time
from collections.abc import Callable

import pytest

from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.observers.observer import wait_for
from tools.nemesis.vip.keepalived_nodes import LEASE_DURATION, Node, VipTestbed
from tools.nemesis.vip.node_observer import HOLD

pytestmark = [pytest.mark.long, pytest.mark.slow]

# The issue's: elector killed, frozen or cut. A release does without the lease's end.
BY_EXPIRY = LEASE_DURATION + 4.0


def test_the_address_is_where_the_leader_is_and_a_client_sees_it_there(
    testbed_of_three: VipTestbed,
) -> None:
    owner = testbed_of_three.settled()
    assert owner.elector.is_leader()
    assert testbed_of_three.node_observer.owners() == [owner.name]


@pytest.mark.parametrize("how", ["terminated", "resigned"])
def test_a_leader_that_gives_up_in_order_hands_the_address_over_before_a_lease_would_end(
    testbed: VipTestbed, how: str, record_property: Callable[[str, object], None]
) -> None:
    old = testbed.settled()
    since = boottime()
    if how == "terminated":
        old.elector.terminate()
    else:
        answer = old.elector.ask("/resign?cooldown=10s", method="POST", timeout=10)
        assert answer is not None
        assert answer.status == 200
    took = testbed.node_observer.hand_over(old.name, since=since, timeout=BY_EXPIRY)
    record_property("seconds", round(took, 2))
    assert took < LEASE_DURATION
    assert testbed.settled() is not old


def _kill(node: Node) -> None:
    node.elector.kill()


def _freeze(node: Node) -> None:
    node.elector.freeze()


def _cut(node: Node) -> None:
    node.link.black_hole()


@pytest.mark.parametrize("fault", [_kill, _freeze, _cut])
def test_a_leader_that_is_gone_loses_the_address_before_another_leads_who_then_gets_it(
    testbed: VipTestbed,
    fault: Callable[[Node], None],
    record_property: Callable[[str, object], None],
) -> None:
    old = testbed.settled()
    since = boottime()
    fault(old)
    took = testbed.node_observer.hand_over(old.name, since=since, timeout=BY_EXPIRY)
    record_property("seconds", round(took, 2))
    last = [each for each in testbed.node_observer.spells() if each.node == old.name][-1]
    assert last.until < since + LEASE_DURATION
    if fault is _freeze:
        old.elector.thaw()  # and sees nobody's address wrongly: the fixture


def test_a_node_off_the_network_loses_the_address_to_the_next_leader(
    testbed_of_three: VipTestbed,
) -> None:
    old = testbed_of_three.settled()
    since = boottime()
    testbed_of_three.network.silence(old.name)
    old.link.black_hole()
    testbed_of_three.node_observer.hand_over(old.name, since=since, timeout=BY_EXPIRY)
    testbed_of_three.network.restore(old.name)
    old.link.heal()
    testbed_of_three.settled()


def test_a_main_that_is_gone_takes_the_address_with_it(testbed: VipTestbed) -> None:
    old = testbed.settled()
    since = boottime()
    old.main.close()
    assert (
        testbed.node_observer.hand_over(old.name, since=since, timeout=BY_EXPIRY) < LEASE_DURATION
    )


def test_nobody_owns_the_address_while_nobody_leads(testbed: VipTestbed) -> None:
    testbed.settled()
    for node in testbed.nodes:
        node.link.black_hole()
    wait_for(lambda: not testbed.node_observer.owners(), timeout=LEASE_DURATION, what="no owner")
    time.sleep(LEASE_DURATION)
    assert testbed.node_observer.owners() == []
    assert testbed.node_observer.answering() == []
    for node in testbed.nodes:
        node.link.heal()
    testbed.settled()


def test_nodes_that_do_not_hear_each_other_still_have_one_owner(testbed: VipTestbed) -> None:
    """The Lease says who owns the address, not VRRP: each could take the other for gone."""
    owner = testbed.settled()
    for node in testbed.nodes:
        testbed.network.silence(node.name)
    time.sleep(LEASE_DURATION)
    assert testbed.node_observer.owners() == [owner.name]
    for node in testbed.nodes:
        testbed.network.restore(node.name)


def test_an_address_that_a_killed_keepalived_left_behind_is_taken_off_by_the_next_one(
    testbed: VipTestbed,
) -> None:
    old = testbed.settled()
    old.keepalived.kill()
    assert testbed.node_observer.owners() == [old.name]
    since = boottime()
    old.keepalived.start()
    wait_for(
        lambda: any(
            each.node == old.name and since < each.until for each in testbed.node_observer.spells()
        ),
        timeout=HOLD * 5,
        what="taken off",
    )
    assert testbed.settled() is old


def test_what_a_frozen_keepalived_owns_is_fenced_by_the_electors_word(
    testbed: VipTestbed,
) -> None:
    """A limit of VRRP (docs/how-to/keepalived.md): the address stays until it thaws. The main must
    ask its elector, which does not say that it leads any more."""
    old = testbed.settled()
    old.keepalived.freeze()
    old.elector.terminate()
    old.elector.wait()
    assert testbed.node_observer.owners() == [old.name]
    assert not old.elector.is_running
    old.keepalived.thaw()
    wait_for(
        lambda: old.name not in testbed.node_observer.owners(),
        timeout=HOLD * 5,
        what="gone after its thaw",
    )
    assert testbed.settled() is not old
