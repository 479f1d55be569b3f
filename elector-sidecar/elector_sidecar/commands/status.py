"""`elector-sidecar status`: who leads, since when, for how long; a table or JSON.

Asks the elector on this machine, or with `--lease` the API server, which also answers from a
workstation. The API server knows less: no validity, no reason.
"""

import argparse
import asyncio
import json
import socket
import sys
import time
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any

from edge_sidecars.runtime.cli.options import Options, Parser, flag
from edge_sidecars.runtime.cli.status_command import (
    BAD_INPUT,
    TIMEOUT,
    StatusDocument,
    add_output,
    aligned,
    connection_to,
)
from edge_sidecars.runtime.cli.values import BadInput, address
from elector_sidecar.commands.ctl.cluster import (
    FLAGS,
    NONE,
    Cluster,
    Failed,
    add_flags,
    check_lease,
)
from elector_sidecar.config import DEFAULT_LISTEN, PREFIX
from elector_sidecar.core.lease import pod_name, wall_seconds

# A longer /leader document is none.
MAX_ANSWER = 65536
_DOCUMENT = StatusDocument(
    "elector",
    "the elector",
    frozenset({"holder", "holderPod", "lease", "acquireTime", "renewTime", "leaseTransitions"}),
    path="/leader",
    longest=MAX_ANSWER,
)


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """0 if a pod leads, 1 if no pod does or nothing could be learnt, 2 for bad input."""
    try:
        options = _options(arguments, environ)
        if options.lease:
            document = asyncio.run(_from_api(options, environ))
        else:
            document = _from_elector(options.url)
        rows = _rows(document)
    except BadInput as error:
        sys.stderr.write(f"elector-sidecar status: {' '.join(str(error).split())}\n")
        return BAD_INPUT
    except (ValueError, Failed) as error:
        sys.stderr.write(f"elector-sidecar status: {error}\n")
        return 1
    except (KeyError, TypeError) as error:
        sys.stderr.write(f"elector-sidecar status: this is no elector's document: {error!r}\n")
        return 1
    if options.output == "json":
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        shown = [(title, it if it.isprintable() else ascii(it)) for title, it in rows]
        sys.stdout.writelines(f"{line}\n" for line in aligned(shown))
    return 0 if document["holder"] else 1


def _parser(default: str) -> Parser:
    it = Parser(
        prog="elector-sidecar status",
        example="elector-sidecar status --lease my-controller --namespace default",
        manual="reference/elector",
    )
    it.add_argument("--url", metavar="URL", help=f"of an elector, or unix:/path; default {default}")
    it.add_argument("--lease", metavar="NAME", help="ask the API server for this Lease instead")
    add_flags(it, needs="--lease")
    add_output(it)
    return it


def _options(arguments: list[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """Raises `BadInput`."""
    options = Options({}, environ, prefix=PREFIX)
    with options.naming_variables():
        listen = options.parsed("listen", address, address(DEFAULT_LISTEN))
    default = listen.dialled.url
    given = _parser(default).parse_args(arguments)
    for name in FLAGS:
        value = getattr(given, name)
        if value is not None and not given.lease:
            raise BadInput(f"{flag(name)} {value} needs --lease: name the Lease, or drop this one")
    if given.lease and given.url is not None:
        raise BadInput(
            f"--url {given.url} asks the elector, --lease {given.lease} the API server: drop one"
        )
    if given.lease:
        check_lease(given.lease, what="--lease")
    given.url = given.url or default
    return given


def _from_elector(url: str) -> dict[str, Any]:
    """The /leader document. Raises ValueError."""
    if url.startswith("unix:/"):
        return _DOCUMENT.ask(_UnixConnection(url), url)
    like = f"http://{DEFAULT_LISTEN} or unix:/run/elector.sock"
    return _DOCUMENT.ask(connection_to(url, like=like), url)


class _UnixConnection(HTTPConnection):
    def __init__(self, url: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self._path = url.removeprefix("unix:")

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(self._path)


async def _from_api(options: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, Any]:
    cluster = Cluster(options, environ, user_agent="elector-sidecar-status")
    try:
        lease = await cluster.lease(options.lease)
    finally:
        await cluster.close()
    spec = lease.spec
    return {
        "holder": spec.holder_identity,
        "holderPod": pod_name(spec.holder_identity),
        "lease": {"namespace": cluster.namespace, "name": options.lease},
        "acquireTime": spec.acquire_time,
        "renewTime": spec.renew_time,
        "leaseDurationSeconds": spec.lease_duration,
        "leaseTransitions": spec.lease_transitions,
    }


def _rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    lease = document["lease"]
    rows = [
        ("LEASE", f"{lease['namespace']}/{lease['name']}"),
        ("LEADER", document["holderPod"] or (NONE if _is_known(document) else "unknown")),
        ("IDENTITY", document["holder"] or "-"),
        ("SINCE", _ago(document.get("acquireTime"))),
        ("RENEWED", _ago(document.get("renewTime"))),
        ("TRANSITIONS", str(document.get("leaseTransitions"))),
    ]
    if "role" in document:
        rows.append(("HERE", f"{document['role']}: {document['reason']}"))
        rows.append(("VALID FOR", f"{document['remainingSeconds']:.1f}s"))
    return rows


def _is_known(document: dict[str, Any]) -> bool:
    """Whether the Lease was ever read; HERE says why not."""
    return "role" not in document or document.get("lastContactSeconds") is not None


def _ago(stamp: str | None) -> str:
    """Other people's stamps, by this machine's wall clock: for people, not for decisions."""
    moment = wall_seconds(stamp)
    if moment is None:
        return "-"
    passed = int(max(time.time() - moment, 0))
    hours, rest = divmod(passed, 3600)
    age = f"{hours}h{rest // 60}m{rest % 60}s" if hours else f"{rest // 60}m{rest % 60}s"
    return f"{stamp} ({age} ago)"
