"""Whether a switchover can be asked for, by the Lease and the pods as they are."""

from typing import Any

import pytest

from elector_sidecar.commands.ctl.candidates import CandidatePod
from elector_sidecar.commands.ctl.command import main
from elector_sidecar.commands.ctl.moves import why_no_switchover
from elector_sidecar.core.lease import HOLDER_ANNOTATION, Lease, parse_lease
from elector_sidecar.shards.table.shard_table import TABLE_ANNOTATION


def pod(name: str, *, status: str = "Running", eligible: bool | None = None) -> CandidatePod:
    return CandidatePod(name, "elector", "node", status, eligible, 0, False, None)


def lease(holder: str = "shop-0_a", **annotations: str) -> Lease:
    known = {HOLDER_ANNOTATION: holder} | annotations
    return parse_lease(
        {
            "metadata": {"resourceVersion": "1", "uid": "u", "annotations": known},
            "spec": {"holderIdentity": holder},
        }
    )


FOUND = [
    pod("shop-0"),
    pod("shop-1"),
    pod("shop-2", eligible=False),
    pod("shop-3", status="Pending"),
]


@pytest.mark.parametrize(
    ("to", "record", "why"),
    [
        ("", lease(), ""),
        ("shop-1", lease(), ""),
        ("shop-0", lease(), "shop-0 leads already"),
        ("shop-2", lease(), "it is not eligible; candidates: shop-1"),
        ("shop-3", lease(), "it is Pending"),
        ("mail-0", lease(), "mail-0 is no candidate for this Lease; candidates: shop-1"),
        ("shop-1", lease(""), "no pod leads"),
        ("shop-1", lease("peer_1", **{HOLDER_ANNOTATION: "shop-0_a"}), "is no elector"),
        ("shop-1", lease(**{TABLE_ANNOTATION: "…"}), "is a table of shards"),
    ],
)
def test_a_switchover_is_refused_with_its_reason(to: str, record: Lease, why: str) -> None:
    found = why_no_switchover(record, FOUND, to=to)
    assert why in found
    assert bool(found) is bool(why)


def test_without_another_candidate_there_is_none() -> None:
    assert "no other candidate" in why_no_switchover(lease(), [pod("shop-0")], to="")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["hold", "x", "--for", "8d"], "--for"),
        (["hold", "x", "--for", "200h"], "at most 7 days"),
        (["switchover", "x", "--to", "Pod 1"], "is not a pod's name"),
        (["resume", "x", "--timeout", "soon"], "--timeout"),
        (["resume", "X!"], "is not a Lease name"),
    ],
)
def test_bad_input_is_told_before_anything_is_asked(
    arguments: list[str], why: str, capsys: Any
) -> None:
    more = ["--server", "http://127.0.0.1:1", "-n", "default"]
    assert main([*arguments, *more], {}) == 2
    assert why in capsys.readouterr().err
