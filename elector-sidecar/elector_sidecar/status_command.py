"""`elector-sidecar status`: who leads, since when, for how long; a table or JSON.

Asks the elector on this machine, or with `--lease` the API server, which also answers from a
workstation. Only what the API server can know is told then: no validity, no reason.
"""

import argparse
import asyncio
import json
import socket
import sys
import time
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from edge_sidecars.runtime.status_command import TIMEOUT, StatusDocument, aligned, connection_to
from elector_sidecar.core.lease import parse_lease, pod_name, wall_seconds

DEFAULT_URL = "http://127.0.0.1:4040"
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
    """0 if somebody leads, 1 if nobody does or nothing could be learnt."""
    options = _parser().parse_args(arguments)
    try:
        if options.lease:
            told = asyncio.run(_from_api(options, environ))
        else:
            told = _from_elector(options.url)
        rows = _rows(told)
    except ValueError as error:
        sys.stderr.write(f"elector-sidecar status: {error}\n")
        return 1
    except (KeyError, TypeError) as error:
        sys.stderr.write(f"elector-sidecar status: this is no elector's document: {error!r}\n")
        return 1
    if options.output == "json":
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
    else:
        shown = [(title, it if it.isprintable() else ascii(it)) for title, it in rows]
        sys.stdout.writelines(f"{line}\n" for line in aligned(shown))
    return 0 if told["holder"] else 1


def _parser() -> argparse.ArgumentParser:
    it = argparse.ArgumentParser(prog="elector-sidecar status", allow_abbrev=False)
    it.add_argument(
        "--url", default=DEFAULT_URL, help=f"of an elector, or unix:/path; default {DEFAULT_URL}"
    )
    it.add_argument("--lease", help="ask the API server for this Lease instead")
    it.add_argument("--namespace", help="default: the kubeconfig context's")
    it.add_argument("--kubeconfig", type=Path, help="default: $KUBECONFIG, else ~/.kube/config")
    it.add_argument("--context", help="of the kubeconfig; default: its current one")
    it.add_argument("-o", "--output", choices=("table", "json"), default="table")
    return it


def _from_elector(url: str) -> dict[str, Any]:
    """The /leader document. Raises ValueError."""
    if url.startswith("unix:/"):
        return _DOCUMENT.ask(_UnixConnection(url), url)
    like = f"{DEFAULT_URL} or unix:/run/elector.sock"
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
    from edge_sidecars.kubeapi import ApiClient, ApiError, Unreachable
    from edge_sidecars.kubeapi.kubeconfig import Kubeconfig

    path = options.kubeconfig or Path(environ.get("KUBECONFIG") or "~/.kube/config")
    credentials = Kubeconfig(path, context=options.context)
    namespace = options.namespace or credentials.namespace
    if not namespace:
        raise ValueError(f"--namespace is missing, and the context of {path} names none")
    server = ApiClient(credentials, user_agent="elector-sidecar-status")
    lease_path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{options.lease}"
    try:
        lease = parse_lease(await server.request("GET", lease_path, timeout=TIMEOUT))
    except (ApiError, Unreachable) as error:
        raise ValueError(f"Lease {namespace}/{options.lease}: {error}") from error
    finally:
        await server.close()
    spec = lease.spec
    return {
        "holder": spec.holder_identity,
        "holderPod": pod_name(spec.holder_identity),
        "lease": {"namespace": namespace, "name": options.lease},
        "acquireTime": spec.acquire_time,
        "renewTime": spec.renew_time,
        "leaseDurationSeconds": spec.lease_duration,
        "leaseTransitions": spec.lease_transitions,
    }


def _rows(told: dict[str, Any]) -> list[tuple[str, str]]:
    lease = told["lease"]
    rows = [
        ("LEASE", f"{lease['namespace']}/{lease['name']}"),
        ("LEADER", told["holderPod"] or "nobody"),
        ("IDENTITY", told["holder"] or "-"),
        ("SINCE", _ago(told.get("acquireTime"))),
        ("RENEWED", _ago(told.get("renewTime"))),
        ("TRANSITIONS", str(told.get("leaseTransitions"))),
    ]
    if "role" in told:
        rows.append(("HERE", f"{told['role']}: {told['reason']}"))
        rows.append(("VALID FOR", f"{told['remainingSeconds']:.1f}s"))
    return rows


def _ago(stamp: str | None) -> str:
    """Other people's stamps, by this machine's wall clock: for people, not for decisions."""
    moment = wall_seconds(stamp)
    if moment is None:
        return "-"
    passed = int(max(time.time() - moment, 0))
    hours, rest = divmod(passed, 3600)
    told = f"{hours}h{rest // 60}m{rest % 60}s" if hours else f"{rest // 60}m{rest % 60}s"
    return f"{stamp} ({told} ago)"
