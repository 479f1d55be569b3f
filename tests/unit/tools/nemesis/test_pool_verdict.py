"""The judge of the nemesis of pools finds every invariant that a history breaks, and no kept one.

Each test has a history that is good, and the same with one thing changed, which is a mutant: what a
pool would do that has lost the rule.
"""

import math
from typing import Any

import pytest

from pool_sidecar.core.controller.node_state import DEAD
from tools.nemesis.pool.judge.history import History
from tools.nemesis.pool.judge.timeline import Span, Timeline, What, merged
from tools.nemesis.pool.judge.verdict import Renewal, Rules, judge

POOL = ("n1", "n2", "n3", "n4", "n5")
KEPT = "shop"
SECONDS = 15.0
RULES = Rules(POOL, kept={KEPT: SECONDS}, replicas={KEPT: 2}, controls={"control": 5.0})
# When it begins, when something happens, and when it is judged.
START, AT, END = 0.0, 1000.0, 2000.0


class Story:
    """What was done, and what the cloud showed. All nodes are Ready from START on."""

    def __init__(self) -> None:
        self.history = History()
        self.spans: list[Span] = []
        self.renewals: list[Renewal] = []
        for name in POOL:
            self.node(name, START)

    def node(self, name: str, at: float, ready: str = "True", *, dead: bool = False) -> None:
        taints = [{"key": DEAD, "effect": "NoExecute"}] if dead else []
        status = {"conditions": [{"type": "Ready", "status": ready}]}
        found = {"metadata": {"name": name}, "spec": {"taints": taints}, "status": status}
        self.history.node(found, at)

    def pod(self, name: str, node: str, since: float = START, until: float = math.inf) -> None:
        """Runs, and is to go then."""
        metadata: dict[str, Any] = {
            "name": name,
            "uid": name,
            "labels": {"app": name.partition("-")[0]},
        }
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        found = {"metadata": metadata, "spec": {"nodeName": node}, "status": status}
        self.history.pod(found, since)
        if until < math.inf:
            metadata["deletionTimestamp"] = "some time"
            self.history.pod(found, until)

    def span(
        self,
        what: What,
        node: str,
        begin: float,
        end: float,
        *,
        peer: str = "",
        shaky: bool = False,
    ) -> None:
        self.spans.append(Span(what, node, begin, end, peer, shaky))

    def cut(self, name: str, begin: float = AT, end: float = END) -> None:
        self.span(What.WAN, name, begin, end)

    def findings(self, now: float = END) -> list[str]:
        """Their names."""
        found = judge(self.history, self.spans, self.renewals, RULES, now=now)
        return [it.partition(":")[0] for it in found]


def dies(judged_after: float = 50.0) -> Story:
    """n1 dies, is judged dead, and its pods are replaced."""
    story = Story()
    story.span(What.OFF, "n1", AT, END)
    story.node("n1", AT + 30, "Unknown")
    judged = AT + judged_after
    story.node("n1", judged, "Unknown", dead=True)
    story.pod("shop-1", "n1", until=judged + SECONDS)
    story.pod("shop-2", "n2")
    story.pod("shop-3", "n3", since=judged + SECONDS + 3)
    return story


def test_a_pool_in_which_nothing_happens_breaks_nothing() -> None:
    assert Story().findings() == []


def test_a_node_that_dies_and_is_replaced_breaks_nothing() -> None:
    assert dies().findings() == []


# ── N1 ──


def test_n1_a_node_that_turns_unknown_while_a_neighbour_lends_is_found() -> None:
    story = Story()
    story.cut("n1")
    assert story.findings() == []
    story.node("n1", AT + 60, "Unknown")
    assert story.findings() == ["N1"]


def test_n1_a_node_that_turns_unknown_with_a_link_of_its_own_is_found() -> None:
    story = Story()
    story.node("n1", AT, "Unknown")
    assert story.findings() == ["N1"]


@pytest.mark.parametrize("what", [What.OFF, What.MEMBER, What.KUBELET, What.MOVED])
def test_n1_a_node_that_cannot_speak_may_turn_unknown(what: What) -> None:
    story = Story()
    story.cut("n1")
    story.span(what, "n1", AT, AT + 60)
    story.node("n1", AT + 40, "Unknown")
    assert story.findings() == []


def test_n1_a_node_turns_unknown_where_all_are_cut_or_the_api_server_was_away() -> None:
    story = Story()
    for name in POOL:
        story.cut(name)
        story.node(name, AT + 35, "Unknown")
    assert story.findings() == []
    story = Story()
    story.span(What.SERVER, "", AT, AT + 20)
    story.node("n1", AT + 31, "Unknown")
    assert story.findings() == []


def test_n1_full_disks_of_all_are_no_excuse() -> None:
    story = Story()
    story.cut("n1")
    for name in POOL:
        story.span(What.DISK, name, AT - 10, END)
    assert story.findings() == []
    story.node("n1", AT + 60, "Unknown")
    assert story.findings() == ["N1"]


def test_n1_one_lender_that_dies_is_no_excuse_and_many_at_once_are() -> None:
    story = Story()
    story.cut("n1")
    story.span(What.OFF, "n2", AT + 30, END)
    story.node("n2", AT + 60, "Unknown")
    assert story.findings() == []
    story.node("n1", AT + 61, "Unknown")
    assert story.findings() == ["N1"]
    story.span(What.MEMBER, "n3", AT + 35, AT + 50)
    assert story.findings() == []


# ── N2 ──


@pytest.mark.parametrize(("after", "found"), [(4.9, []), (5.1, ["N2"]), (60.0, ["N2"])])
def test_n2_a_dead_nodes_lease_that_is_renewed_for_more_than_5_s_is_found(
    after: float, found: list[str]
) -> None:
    story = dies()
    story.renewals += [Renewal("n1", AT - 3), Renewal("n1", AT + after)]
    assert story.findings() == found


def test_n2_one_renewal_of_a_lender_that_stood_still_is_excused_and_a_second_one_is_not() -> None:
    story = dies()
    story.span(What.FROZEN, "n2", AT - 1, AT + 20)
    story.span(What.MEMBER, "n2", AT - 1, AT + 20)
    story.renewals.append(Renewal("n1", AT + 20.1))
    assert story.findings() == []
    story.renewals.append(Renewal("n1", AT + 20.2))
    assert story.findings() == ["N2"]


def test_n2_lenders_that_send_what_they_held_at_every_death_are_found() -> None:
    story = Story()
    for name, died in (("n1", AT), ("n3", AT + 200)):
        story.span(What.OFF, name, died, died + 60)
        story.span(What.FROZEN, "n2", died - 1, died + 20)
        story.renewals.append(Renewal(name, died + 20.1))
    assert story.findings() == ["N2"]


def test_n2_a_renewal_before_the_lender_woke_is_not_excused() -> None:
    story = dies()
    story.span(What.FROZEN, "n2", AT - 1, AT + 60)
    story.renewals.append(Renewal("n1", AT + 20))
    assert story.findings() == ["N2"]


# ── N3 ──


def test_n3_a_node_that_is_judged_dead_before_40_s_of_silence_is_found() -> None:
    story = dies(judged_after=35.0)
    assert story.findings() == ["N3"]


def test_n3_half_of_the_others_are_not_enough() -> None:
    story = Story()
    story.cut("n1")
    for other in ("n2", "n3"):
        story.span(What.LAN, "n1", AT, END, peer=other)
    for other in ("n4", "n5"):
        story.span(What.OFF, other, AT - 500, END)
        story.node(other, AT - 460, "Unknown")
    story.node("n1", AT + 40, "Unknown")
    story.node("n1", AT + 60, "Unknown", dead=True)
    assert story.findings() == [], "both of two"
    story.spans.pop(1)
    assert "N3" in story.findings(), "one of two"


def test_n3_one_that_lies_is_one_vote() -> None:
    story = Story()
    story.cut("n1")
    story.span(What.MEMBER, "n1", AT, END)
    story.span(What.LIAR, "n2", AT, END)
    story.node("n1", AT + 40, "Unknown")
    story.node("n1", AT + 60, "Unknown", dead=True)
    assert story.findings() == ["N3"]


def test_n3_one_that_lies_does_not_judge_where_it_alone_is_ready() -> None:
    story = Story()
    story.span(What.LIAR, "n2", AT, END)
    story.span(What.MEMBER, "n2", AT, END)
    for name in POOL:
        if name != "n2":
            story.cut(name)
            story.node(name, AT + 35, "Unknown")
    assert story.findings() == []
    story.node("n1", AT + 60, "Unknown", dead=True)
    assert story.findings() == ["N3"]


def test_n3_who_is_not_ready_bears_no_witness() -> None:
    story = dies()
    for name in ("n2", "n3"):
        story.span(What.MEMBER, name, AT - 50, END)
        story.cut(name, AT - 50)
        story.node(name, AT, "Unknown")
    assert story.findings() == [], "two of two"
    story.history.pods.clear()
    for name in ("n4", "n5"):
        story.span(What.LAN, "n1", AT - 90, END, peer=name)
    story.spans.pop(0)
    for name in ("n2", "n3"):
        story.span(What.LAN, "n1", AT - 90, END, peer=name)
    story.cut("n1")
    assert story.findings() == []
    story.spans = [it for it in story.spans if it.peer not in ("n4", "n5")]
    assert "N3" in story.findings(), "of the two that are, neither"


def test_n3_a_node_whose_whole_site_is_cut_is_not_judged() -> None:
    story = Story()
    for name in POOL:
        story.cut(name)
        if name != "n1":
            story.span(What.LAN, name, AT, END, peer="n1")
        story.node(name, AT + 35, "Unknown")
    assert story.findings() == []
    story.node("n1", AT + 60, "Unknown", dead=True)
    assert "N3" in story.findings()


def test_n3_a_report_of_before_counts_for_30_s_and_no_longer() -> None:
    for back, found in ((AT + 45, []), (AT + 5, ["N3"])):
        story = Story()
        story.span(What.OFF, "n1", back - 60, back)
        story.node("n1", AT, "Unknown")
        story.node("n1", AT + 60, "Unknown", dead=True)
        assert story.findings() == found


# ── pods ──


def test_a_pod_that_leaves_before_its_seconds_of_dead_is_found() -> None:
    story = dies()
    story.pod("shop-4", "n1", until=AT + 50 + 2)
    assert story.findings() == ["evicted"]


def test_a_pod_that_leaves_a_node_that_is_not_dead_is_found_where_it_tolerates_that() -> None:
    story = dies()
    story.pod("control-1", "n1", until=AT + 36)
    assert story.findings() == []
    story.pod("shop-4", "n3", until=AT + 50)
    assert story.findings() == ["evicted"]


def test_a_pod_that_leaves_a_node_that_was_back_within_its_seconds_is_found() -> None:
    story = Story()
    story.span(What.OFF, "n1", AT, AT + 60)
    story.node("n1", AT + 30, "Unknown")
    story.node("n1", AT + 50, "Unknown", dead=True)
    story.node("n1", AT + 61, "True")
    story.pod("shop-1", "n1")
    assert story.findings() == []
    story.pod("shop-4", "n1", until=AT + 50 + SECONDS)
    assert story.findings() == ["evicted"]


def test_a_dead_node_that_nobody_judges_is_found_once_its_time_is_over() -> None:
    story = Story()
    story.span(What.OFF, "n1", AT, END)
    story.node("n1", AT + 30, "Unknown")
    story.pod("shop-1", "n1")
    story.pod("shop-2", "n2")
    assert story.findings(now=AT + 90) == []
    told = ["in time"] * 3
    assert story.findings() == told, "it is still there, not replaced, and not dead"


def loses_power(judged_after: float = math.inf) -> Story:
    """All do, and n1 stays off; its neighbours are back after 30 s."""
    story = Story()
    for name in POOL:
        story.span(What.OFF, name, AT, END if name == "n1" else AT + 30)
        story.node(name, AT + 30, "Unknown")
        if name != "n1":
            story.node(name, AT + 35)
    if judged_after < math.inf:
        story.node("n1", AT + judged_after, "Unknown", dead=True)
    return story


def test_a_node_that_stays_off_after_a_power_cut_of_its_site_and_is_not_dead_is_found() -> None:
    assert loses_power(judged_after=110.0).findings() == []
    assert loses_power().findings(now=AT + 125) == [], "its neighbours have just come back"
    assert loses_power().findings() == ["in time"]


def test_a_node_is_not_to_be_dead_by_those_who_forgot_it_or_while_more_befalls_them() -> None:
    story = loses_power()
    story.span(What.FORGOTTEN, "n2", AT + 30, AT + 31)
    assert story.findings() == []
    story = loses_power()
    story.span(What.WAN, "n2", AT + 100, END)
    assert story.findings() == []


def test_pods_that_nobody_replaces_are_found() -> None:
    story = dies()
    story.history.pods.pop("shop-3")
    assert story.findings() == ["in time"]


@pytest.mark.parametrize(
    ("what", "node", "peer"),
    [
        (What.CONTROLLER, "", ""),
        (What.SERVER, "", ""),
        (What.WAN, "n3", ""),
        (What.LAN, "n2", "n3"),
    ],
)
def test_where_more_is_amiss_a_dead_node_is_judged_when_it_can_be(
    what: What, node: str, peer: str
) -> None:
    story = Story()
    story.span(What.OFF, "n1", AT, END)
    story.node("n1", AT + 30, "Unknown")
    story.pod("shop-1", "n1")
    story.pod("shop-2", "n2")
    story.span(what, node, AT + 20, AT + 40, peer=peer)
    assert story.findings(now=AT + 135) == []
    assert story.findings() == ["in time"], "all has been well for long enough"


def test_a_pod_without_the_toleration_that_stays_on_a_lost_node_is_found() -> None:
    story = dies()
    story.pod("control-1", "n1", until=AT + 36)
    assert story.findings() == []
    story.pod("control-2", "n1")
    assert story.findings(now=AT + 50) == [], "not yet"
    assert story.findings() == ["control"]


# ── the taint ──


def test_dead_on_a_node_that_speaks_is_found_after_2_s() -> None:
    for until, found in ((AT + 81.5, []), (AT + 83, ["Unknown"])):
        story = Story()
        story.span(What.OFF, "n1", AT, AT + 80)
        story.node("n1", AT + 30, "Unknown")
        story.node("n1", AT + 50, "Unknown", dead=True)
        story.node("n1", AT + 80, "True", dead=True)
        story.node("n1", until, "True")
        assert story.findings() == found


def test_dead_stays_while_the_controller_is_away() -> None:
    story = Story()
    story.span(What.OFF, "n1", AT, AT + 80)
    story.span(What.CONTROLLER, "", AT + 70, AT + 90)
    story.node("n1", AT + 30, "Unknown")
    story.node("n1", AT + 50, "Unknown", dead=True)
    story.node("n1", AT + 80, "True", dead=True)
    assert story.findings(now=AT + 89) == []


# ── the timeline ──


def test_a_span_holds_from_before_its_fault_until_after_it() -> None:
    times = iter([1.0, 2.0, 3.0, 4.0])
    timeline = Timeline(lambda: next(times))
    with timeline.holding(What.WAN, "n1"):
        with timeline.holding(What.LAN, "n1", peer="n2"):
            assert [it.end for it in timeline.spans()] == [math.inf, math.inf]
        assert [(it.what, it.begin, it.end) for it in timeline.spans()] == [
            (What.LAN, 2.0, 3.0),
            (What.WAN, 1.0, math.inf),
        ]
    assert [it.end for it in timeline.spans()] == [3.0, 4.0]


def test_spans_that_touch_are_one() -> None:
    spans = [Span(What.OFF, "n1", begin, end) for begin, end in ((5, 6), (1, 2), (2, 3))]
    assert merged(spans) == [(1, 3), (5, 6)]
