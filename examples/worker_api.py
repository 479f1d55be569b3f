"""What a worker says to the Local Controller of its node: one POST, repeated until it is taken.

Standard library only, so that a worker's image is any Python image and these few files.
"""

import json
import os
import time
import urllib.request
from typing import Any

# Seconds between two attempts; LC may be restarting.
RETRY_INTERVAL = 1.0
ATTEMPTS = 60


def report(
    kind: str,
    status: str,
    *,
    owner_kind: str,
    results: list[dict[str, Any]] | None = None,
    owner_info: dict[str, Any] | None = None,
) -> None:
    """Tells LC how this worker stands; returns when LC has it on disk.

    `kind` is train, eval, deploy or inference; `status` running, completed or failed. Raises
    OSError where LC does not take it within a minute.
    """
    name = os.environ["WORKER_NAME"]
    body = {
        "name": name,
        "namespace": os.environ["NAMESPACE"],
        "ownerName": os.environ.get("JOB_NAME") or os.environ["SERVICE_NAME"],
        "ownerKind": owner_kind,
        "kind": kind,
        "status": status,
        "ownerInfo": owner_info or {},
        "results": [{**each, "url": on_host(each["url"])} for each in results or []],
    }
    request = urllib.request.Request(
        f"{os.environ['LC_SERVER']}/sedna/workers/{name}/info",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=10):
                return
        except OSError as error:
            if attempt == ATTEMPTS:
                raise
            print(f"LC does not answer ({error}), again in {RETRY_INTERVAL:g} s", flush=True)
            time.sleep(RETRY_INTERVAL)


def on_host(path: str) -> str:
    """The path as the node knows it: mounts stand below DATA_PATH_PREFIX."""
    return path.removeprefix(os.environ.get("DATA_PATH_PREFIX", ""))
