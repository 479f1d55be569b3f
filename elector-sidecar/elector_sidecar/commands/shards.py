"""`elector-sidecar shards`: the members of an election for shards and who owns what.

Asks the elector on this machine; what it is shown promises the asker nothing (S6).
"""

from collections.abc import Mapping
from typing import Any

from edge_sidecars.runtime.cli.status_command import StatusCommand, StatusDocument, listens_at, page
from elector_sidecar.config import DEFAULT_LISTEN, PREFIX


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """0 if the elector answered, 1 if it did not, 2 for bad input."""
    return StatusCommand(
        program="elector-sidecar",
        name="shards",
        document=StatusDocument(
            "elector with shards",
            "the elector",
            frozenset({"shards", "owned", "members", "unowned"}),
            path="/shards?promise=false",
        ),
        manual="reference/shards",
        url_of="an elector",
        listen=listens_at("listen", DEFAULT_LISTEN, prefix=PREFIX),
        table=_table,
    ).run(arguments, environ)


def _table(document: dict[str, Any]) -> str:
    owned = spans([it["shard"] for it in document["owned"]])
    summary = [
        ("SHARDS", str(document["shards"])),
        ("UNOWNED", str(document["unowned"])),
        ("HERE", f"{document['identity']}: {owned or 'none'}"),
        ("HANDING OVER", spans([it["shard"] for it in document["handingOver"]]) or "-"),
        ("VALID FOR", f"{document['remainingSeconds']:.1f}s"),
        ("REASON", document["reason"] or "-"),
    ]
    rows = [
        (it["pod"], str(it["owned"]), "yes" if it["settled"] else "no", it["identity"])
        for it in document["members"]
    ]
    return page(summary, (("MEMBER", "OWNED", "SETTLED", "IDENTITY"), rows))


def spans(shards: list[int]) -> str:
    """Neighbours together: "0-15, 40"."""
    spans: list[tuple[int, int]] = []
    for shard in shards:
        if spans and spans[-1][1] == shard - 1:
            spans[-1] = (spans[-1][0], shard)
        else:
            spans.append((shard, shard))
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
