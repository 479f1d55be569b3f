"""Sedna's kinds on a test's API server, from manifests/crds.

Guarantees: `install` may be called by whoever needs them, also at the same time; every kind is
served when it returns.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import yaml

from edge_sidecars.sedna_api.core.kinds import GROUP, KINDS, NODE_REPORT
from tools.harness.controlplane.api_server import ApiServer

Json = dict[str, Any]

MANIFESTS = Path(__file__).resolve().parents[4] / "manifests" / "crds"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Seconds until new CRDs are served: kube-apiserver works for some 5 s, more on a busy machine.
SERVED_TIMEOUT = 120.0
POLL_INTERVAL = 0.05


def read(path: Path) -> list[Json]:
    """All documents of a file; libyaml reads large ones five times as fast as Python."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader))


def install(server: ApiServer) -> None:
    for path in sorted(MANIFESTS.glob("*.yaml")):
        # To judge a CRD with pod templates costs the API server half a second, if it is there too.
        if server.admin.get(f"{CRDS}/{path.stem}.{GROUP}")[0] == 200:
            continue
        for definition in read(path):
            status, answer = server.admin.post(f"{CRDS}?fieldValidation=Strict", definition)[:2]
            assert status in (201, 409), answer
    deadline = time.monotonic() + SERVED_TIMEOUT
    for kind in (*KINDS, NODE_REPORT):
        while server.admin.get(kind.collection())[0] != 200:
            assert time.monotonic() < deadline, f"{kind.plural} are not served"
            time.sleep(POLL_INTERVAL)
