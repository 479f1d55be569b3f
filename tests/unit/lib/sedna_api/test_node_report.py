"""NodeReports: what is stored, refused, taken in and pruned, case by case."""

from dataclasses import replace

import pytest
from msgspec import structs

from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import MAX_BODY, MalformedReport, Report, unnumbered_store
from edge_sidecars.sedna_api.core.store_reports import (
    RETIRED_STORE,
    AlreadyStored,
    Full,
    Gap,
    Outcome,
    RefusedReport,
    Stored,
)
from edge_sidecars.sedna_api.core.stored_report import (
    AppliedReport,
    StoredReport,
    applied_json,
    applied_of,
    mergeable,
)

EMPTY = NodeReport.new("shop", "edge-a", "s1", epoch=7)
BIG = b'{"a":"' + b"x" * (MAX_BODY - 8) + b'"}'


def report(
    seq: int, *, previous: int = 0, uid: str = "u", store: str = "s1", **rest: object
) -> Report:
    plain = Report(
        store_id=store,
        seq=seq,
        uid=uid,
        kind="dataset",
        namespace="shop",
        name="d1",
        is_event=False,
        worker="",
        body=b'{"numberOfSamples":%d}' % seq,
        previous=previous,
    )
    return replace(plain, **rest)  # type: ignore[arg-type]


def event(seq: int, *, previous: int = 0, uid: str = "u", store: str = "s1") -> Report:
    body = b'{"phase":"Train","status":"Ready","round":%d}' % seq
    return report(seq, previous=previous, uid=uid, store=store, is_event=True, body=body)


def store(*reports: Report, into: NodeReport = EMPTY) -> tuple[NodeReport, list[Outcome]]:
    grown, outcomes = into.stored(reports)
    return grown, list(outcomes)


def seqs(reports: tuple[StoredReport, ...]) -> list[int]:
    return [it.seq for it in reports]


def applied(seq: int, *, store: str = "s1", epoch: int = 7) -> AppliedReport:
    return AppliedReport("edge-a", store, epoch, seq)


# ── storing ──


def test_what_is_late_of_a_former_connection_that_numbers_nothing_is_stored_once_more() -> None:
    def said(began: int, uid: str, *, is_event: bool = False, is_late: bool = False) -> Report:
        plain = report(0, uid=uid, store=unnumbered_store(began, "x"))
        return replace(plain, is_event=is_event, is_late=is_late)

    grown, _ = store(said(2, "before"), said(3, "same"))
    grown, outcomes = store(
        said(2, "same"), said(1, "other", is_late=True), said(2, "same", is_event=True), into=grown
    )

    assert outcomes == [AlreadyStored(), Stored(), Stored()]
    assert {uid: seqs(grown.pending(uid)) for uid in ("before", "same", "other")} == {
        "before": [1],
        "same": [1, 2],
        "other": [1],
    }
    # A sender that numbers has its numbers to itself.
    grown, _ = store(report(1, store="s2"), into=grown)
    assert store(said(2, "u"), into=grown)[1] == [RefusedReport(RETIRED_STORE)]


def test_reports_stand_in_the_order_in_which_they_came() -> None:
    grown, outcomes = store(event(1), event(2, previous=1), event(3, previous=2))

    assert outcomes == [Stored(), Stored(), Stored()]
    assert seqs(grown.pending("u")) == [1, 2, 3]
    assert [it.previous for it in grown.pending("u")] == [0, 1, 2]


def test_a_repeated_report_is_known_also_after_it_was_pruned() -> None:
    grown, _ = store(event(1), event(2, previous=1))
    pruned = grown.pruned({"u": applied(2)}, ())
    again, outcomes = store(event(1), event(2), into=pruned)

    assert pruned.pending("u") == ()
    assert outcomes == [AlreadyStored(), AlreadyStored()]
    assert again is pruned


def test_of_counts_the_newest_stands_but_never_across_an_event() -> None:
    grown, _ = store(report(1), report(2), event(3, previous=2), report(4), report(5))

    assert seqs(grown.pending("u")) == [2, 3, 5]


def test_a_report_whose_predecessor_was_lost_waits_for_it() -> None:
    grown, outcomes = store(event(1), event(3, previous=2), event(4, previous=3))
    assert outcomes == [Stored(), Gap(2), Gap(3)]

    whole, outcomes = store(event(2), event(3, previous=2), event(4, previous=3), into=grown)
    assert outcomes == [Stored(), Stored(), Stored()]
    assert seqs(whole.pending("u")) == [1, 2, 3, 4]


def test_holes_that_replacement_leaves_are_no_gaps() -> None:
    grown, outcomes = store(event(1), report(4, previous=1), event(5, previous=4))

    assert outcomes == [Stored(), Stored(), Stored()]
    assert len(mergeable(grown.pending("u"), None)) == 3


def test_what_does_not_fit_is_not_stored_nor_what_comes_after_it() -> None:
    filling = [report(1, uid=f"u{n}", name=f"d{n}", body=BIG) for n in range(15)]
    grown, outcomes = store(*filling, event(1), into=EMPTY)
    assert outcomes == [Stored()] * 16

    big = report(2, previous=1, body=BIG, is_event=True)
    grown, outcomes = store(big, big, event(3, previous=2), event(4), event(1, uid="v"), into=grown)
    assert outcomes == [Full(), Full(), Gap(2), Gap(2), Stored()]
    assert seqs(grown.pending("u")) == [1]

    pruned = grown.pruned({"u0": applied(1)}, ())
    roomy, outcomes = store(big, event(3, previous=2), event(4, previous=3), into=pruned)
    assert outcomes == [Stored(), Stored(), Stored()]
    assert seqs(roomy.pending("u")) == [1, 2, 3, 4]


def test_reports_that_go_is_counted_as_the_api_server_writes_them() -> None:
    """Go's encoder makes six bytes of each angle bracket."""
    brackets = b'{"a":"' + b"<" * (MAX_BODY - 8) + b'"}'
    _, outcomes = store(*(report(1, uid=f"u{n}", name=f"d{n}", body=brackets) for n in range(4)))

    assert outcomes == [Stored(), Stored(), Full(), Full()]


def test_a_count_may_take_the_place_of_a_larger_one_where_nothing_else_fits() -> None:
    full, _ = store(*(report(1, uid=f"u{n}", name=f"d{n}", body=BIG) for n in range(15)))
    _, outcomes = store(report(2, uid="u3", name="d3"), event(1, uid="v"), into=full)

    assert outcomes == [Stored(), Stored()]


def test_what_cannot_be_stored_at_all_is_refused_with_the_reason() -> None:
    grown, outcomes = store(
        report(1, body=b"[]"), report(1, body=BIG + b"  "), report(1), report(2, name="other")
    )

    assert [type(it) for it in outcomes] == [RefusedReport, RefusedReport, Stored, RefusedReport]
    assert seqs(grown.pending("u")) == [1]


def test_who_numbers_nothing_gets_the_next_number() -> None:
    grown, outcomes = store(event(0), event(0), event(0))

    assert outcomes == [Stored()] * 3
    assert seqs(grown.pending("u")) == [1, 2, 3]


# ── stores ──


def test_a_new_store_retires_the_old_one_and_counts_from_one() -> None:
    grown, _ = store(event(1), event(2, previous=1))
    grown, outcomes = store(event(1, store="s2"), event(3, previous=2), into=grown)

    assert outcomes == [Stored(), RefusedReport(RETIRED_STORE)]
    assert (grown.store_id, grown.epoch, grown.retired) == ("s2", 8, ("s1",))
    assert [(it.epoch, it.seq, it.previous) for it in grown.pending("u")] == [
        (7, 1, 0),
        (7, 2, 1),
        (8, 1, 0),
    ]


def test_retired_stores_are_remembered_but_not_for_ever() -> None:
    grown = EMPTY
    for number in range(200):
        grown, _ = store(event(1, store=f"t{number}"), into=grown)

    assert grown.retired[-1] == "t198"
    assert len(grown.retired) == 64


# ── taking in ──


def test_nothing_is_taken_in_twice() -> None:
    grown, _ = store(event(1), event(2, previous=1), event(3, previous=2))

    assert seqs(mergeable(grown.pending("u"), None).reports) == [1, 2, 3]
    assert seqs(mergeable(grown.pending("u"), applied(2)).reports) == [3]
    assert seqs(mergeable(grown.pending("u"), applied(3)).reports) == []


def test_what_stands_twice_in_a_damaged_node_report_is_taken_in_once() -> None:
    grown, _ = store(event(1), event(2, previous=1))

    assert seqs(mergeable(grown.pending("u") * 2, None).reports) == [1, 2]


def test_an_event_waits_for_the_object_to_be_as_new_as_its_node_report() -> None:
    grown, _ = store(event(1), event(2, previous=1), event(3, previous=2))
    pruned = grown.pruned({"u": applied(2)}, ())

    found = mergeable(pruned.pending("u"), applied(1))
    assert found.reports == ()
    assert "follows 2" in found.waits_for
    assert mergeable(pruned.pending("u"), applied(2)).waits_for == ""


def test_a_count_does_not_wait() -> None:
    grown, _ = store(report(1), report(2, previous=1, worker="w"))
    pruned = grown.pruned({"u": applied(1)}, ())

    assert seqs(mergeable(pruned.pending("u"), applied(0)).reports) == [2]


def test_reports_of_a_new_store_count_after_those_of_the_old_one() -> None:
    grown, _ = store(event(1), event(1, store="s2"), event(2, previous=1, store="s2"))
    pending = grown.pending("u")

    assert seqs(mergeable(pending, None).reports) == [1, 1, 2]
    assert seqs(mergeable(pending, applied(1)).reports) == [1, 2]
    assert seqs(mergeable(pending, applied(1, store="s2", epoch=8)).reports) == [2]


def test_an_old_copy_of_the_node_report_takes_nothing_back() -> None:
    old, _ = store(event(1))

    assert mergeable(old.pending("u"), applied(1, store="s2", epoch=8)).reports == ()


def test_one_that_takes_the_place_of_a_deleted_node_report_goes_on() -> None:
    new = NodeReport.new("shop", "edge-a", "s1", epoch=100)
    grown, outcomes = store(event(9), event(10, previous=9), into=new)

    assert outcomes == [Stored(), Stored()]
    # 9 had been taken in before the deletion; its acknowledgement was lost.
    assert seqs(mergeable(grown.pending("u"), applied(9)).reports) == [10]
    assert seqs(mergeable(grown.pending("u"), applied(5)).reports) == [9, 10]


def test_so_does_one_for_a_node_whose_store_was_lost_too() -> None:
    new = NodeReport.new("shop", "edge-a", "s2", epoch=100)
    grown, _ = store(event(1, store="s2"), into=new)

    assert seqs(mergeable(grown.pending("u"), applied(50)).reports) == [1]


# ── pruning ──


def test_pruning_leaves_what_is_not_taken_in_and_drops_what_is_gone() -> None:
    grown, _ = store(event(1), event(2, previous=1), event(1, uid="v"), event(1, uid="w"))
    pruned = grown.pruned({"u": applied(1), "v": applied(1)}, {"w", "never-seen"})

    assert seqs(pruned.pending("u")) == [2]
    assert set(pruned.entries) == {"u", "v"}
    assert pruned.entries["v"].seq == 1
    assert pruned.pruned({"u": applied(1)}, ()) is pruned


# ── the document ──


def test_a_node_report_says_the_same_after_the_api() -> None:
    grown, _ = store(
        event(1), event(1, store="s2"), report(2, store="s2", worker="w"), event(1, uid="v")
    )
    document = grown.to_json()

    assert document["metadata"] == {
        "name": "edge-a",
        "namespace": "shop",
        "labels": {"sedna.io/node.edge-a": ""},
    }
    assert NodeReport.parse(document) == grown


def test_a_change_is_bound_to_the_version_that_was_read() -> None:
    document = EMPTY.to_json()
    document["metadata"] |= {"uid": "n-1", "resourceVersion": "42"}
    read = NodeReport.parse(document)
    grown, _ = store(event(1), into=read)

    assert grown.to_patch()["metadata"] == {"uid": "n-1", "resourceVersion": "42"}
    assert grown.to_json()["metadata"]["resourceVersion"] == "42"


@pytest.mark.parametrize(
    "broken",
    [
        b"nonsense",
        b"[]",
        {"metadata": {}},
        EMPTY.to_json() | {"epoch": -1},
        EMPTY.to_json() | {"node": "edge-b"},
        EMPTY.to_json() | {"entries": [{"uid": "u"}]},
        EMPTY.to_json() | {"entries": [{"uid": "u", "kind": "dataset", "name": "d", "seq": 1}] * 2},
        EMPTY.to_json()
        | {
            "entries": [
                {
                    "uid": "u",
                    "kind": "dataset",
                    "name": "d",
                    "seq": 1,
                    "reports": [{"epoch": 1, "storeID": "s", "seq": 1, "body": []}],
                }
            ]
        },
    ],
    ids=lambda broken: str(broken)[-40:],
)
def test_what_is_no_node_report_is_malformed(broken: bytes | dict[str, object]) -> None:
    with pytest.raises(MalformedReport):
        NodeReport.parse(broken)


def test_what_an_object_has_taken_in_says_the_same_after_the_api() -> None:
    taken = {"b": applied(3), "a": applied(1)}
    taken = {node: structs.replace(it, node=node) for node, it in taken.items()}
    items = applied_json(taken)

    assert [it["node"] for it in items] == ["a", "b"]
    assert applied_of({"appliedReports": items}) == taken
    assert applied_of(None) == applied_of({}) == applied_of({"appliedReports": None}) == {}
    with pytest.raises(MalformedReport):
        applied_of({"appliedReports": [{"node": "a"}]})
