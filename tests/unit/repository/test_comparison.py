"""The page of comparison: figures of others are those of the benchmarks, each claim has its mark.

Our own figures change with each release, and are not held to anything here.
"""

import re

import pytest

from tests.unit.repository.checkout import ROOT, document, rows
from tests.unit.repository.test_pages import BENCHES
from tools.bench.gm.targets import LATENCIES, RATES
from tools.bench.relay import targets
from tools.bench.relay.scenarios.fanout import HUNDRED, TEN, Fanout

PAGE, RELAY = "docs/explanation/comparison.md", "docs/explanation/comparison-relay.md"
MARKS = {"read", "tried", "documented"}
# By the title, where they are.
TABLES = {
    "The elector and client-go's leader election": PAGE,
    "Moving the lead": PAGE,
    "Measured": RELAY,
    "What they do": RELAY,
    "GM, LC and Sedna's own": PAGE,
}
# Of the table of features: ours, which other tests prove, and who stands beside it.
PEERS = ("lite-apiserver", "YurtHub", "MetaServer")


def _row(title: str, first: str) -> list[str]:
    (found,) = (cells for cells in rows(TABLES[title], title) if cells[0] == first)
    return [cell.replace("*", "") for cell in found]


def _figures(peers: str) -> list[str]:
    return [it.strip() for it in peers.split("|")]


@pytest.mark.parametrize(
    ("first", "peers"),
    [
        (
            "LIST of 1000 pods, 1 client, beside the API server itself",
            targets.LIST_PEERS["list-1000-1"],
        ),
        ("LIST of 1000 pods, 16 clients", targets.LIST_PEERS["list-1000-16"]),
        ("GET of a pod, 1 client", targets.GET_PEERS["get-1"]),
        ("GET of a pod, 16 clients", targets.GET_PEERS["get-16"]),
        ("10 watchers at 300 a second: added delay p50, p99", targets.WATCH_PEERS[TEN]),
        ("100 watchers at 300 a second", targets.WATCH_PEERS[HUNDRED]),
    ],
)
def test_figures_of_peers_are_those_of_the_benchmark(first: str, peers: str) -> None:
    assert _row("Measured", first)[2:-1] == _figures(peers)


def test_a_peers_single_watcher_is_that_of_the_benchmark() -> None:
    told = _row("Measured", "1 watcher at 300 events a second: delivered a second")[2:-1]
    assert told == [
        it.removesuffix(" events/s") for it in _figures(targets.WATCH_PEERS[Fanout(1, 300)])
    ]


def test_processor_time_memory_and_starts_of_peers_are_those_of_the_benchmark() -> None:
    for fanout, count in ((TEN, 10), (HUNDRED, 100)):
        told = _row("Measured", f"processor time for 100,000 events: {count} watchers")[2:-1]
        assert told == [f"{it} s" for it in _figures(targets.CPU_PEERS[fanout])]
    names = ("memory without pods", "memory with 1000 pods", "memory with 10,000 pods")
    for first, (_, _, peers) in zip(names, targets.RSS, strict=True):
        assert _row("Measured", first)[2:-1] == [f"{it} MiB" for it in _figures(peers)]
    starts = {name: peers for name, _, _, peers in targets.STARTS}
    told_as = {
        "start-cold": "start to the first list of 10,000 pods, cold",
        "start-restart": "the same after a restart",
        "start-black-hole": "the same after a restart while cut",
    }
    for name, first in told_as.items():
        assert _row("Measured", first)[2:-1] == _figures(starts[name])
    assert starts["start-refused"] == starts["start-black-hole"]


def test_sednas_figures_are_those_of_the_benchmark() -> None:
    title = "GM, LC and Sedna's own"
    told = _row(title, "incremental, federated jobs a second")[2]
    assert told == ", ".join(sedna.removesuffix(" /s") for _, sedna in RATES.values())
    assert _row(title, "dataset created, LC has it: p50")[2] == LATENCIES["active-standby"][1]


def test_every_claim_about_what_a_peer_does_says_where_it_is_from() -> None:
    """But for what each is, and what it needs, which are its own documents' first lines."""
    free = {"is for", "needs in the cloud"}
    found = [cells for cells in rows(RELAY, "What they do") if cells[0] not in free]
    assert len(found) > 8
    for cells in found:
        claims = [it for it in cells[2:-1] if it not in ("-", "yes")]
        assert len(cells) == 3 + len(PEERS)
        for claim in claims:
            (marks, *_) = re.findall(r"\(([^)]+)\)", claim) or [""]
            assert set(re.findall(r"[a-z]+", marks)) & MARKS, (cells[0], claim)


def test_every_mark_is_explained() -> None:
    explained = {cells[0].split()[-1] for cells in rows(PAGE, "How to read it")}
    assert explained >= MARKS
    assert (
        set(re.findall(r"\((read|tried|documented)\b", document(PAGE) + document(RELAY))) == MARKS
    )


def test_each_row_names_the_proof_of_our_own_figure_or_claim() -> None:
    promises = {
        f"{letter}{number}"
        for page in ("election", "relay", "pools")
        for letter, number in re.findall(
            r"^\| ([A-Z])(\d+) \|", document(f"docs/explanation/{page}.md"), re.M
        )
    }
    proven = 0
    for title, name in TABLES.items():
        for cells in rows(name, title):
            proof = cells[-1]
            bench, _, family = proof.partition(" ")
            page = re.fullmatch(r"\[manual\]\(\.\./(.+)\)", proof)
            assert (
                proof in promises
                or family in BENCHES.get(bench, ())
                or (page is not None and (ROOT / "docs" / page[1]).is_file())
            ), (title, cells[0], proof)
            proven += page is None
    assert proven > 50
