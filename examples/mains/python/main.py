"""A main in Python: works only while its elector proves that this pod leads.

Standard library only. In asyncio, `edge_sidecars.leader_client` does the same.
"""

import http.client
import json
import os
import signal
import threading
import time
from pathlib import Path

ELECTOR = os.environ.get("ELECTOR", "http://127.0.0.1:4040").removeprefix("http://")
LEDGER = Path(os.environ["LEDGER"])
# Seconds. The elector sends a line each second: after this much silence the stream is dead.
SILENCE = 3.0
# Seconds. Electors and mains start in any order.
REDIAL = 0.2


class Lead:
    """The newest line of the elector. `token` is None once the lead has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._valid_until = 0.0
        self._token: int | None = None

    def hear(self, document: dict[str, object]) -> None:
        until, token = document["validUntil"], document["fencingToken"]
        with self._lock:
            leads = document["isLeader"] is True
            self._token = token if leads and isinstance(token, int) else None
            self._valid_until = float(until) if isinstance(until, int | float) else 0.0

    def token(self) -> int | None:
        """The fencing token while the lead is proven, by the clock that `validUntil` counts."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        with self._lock:
            return self._token if now < self._valid_until else None


def follow(lead: Lead) -> None:
    while True:
        connection = http.client.HTTPConnection(ELECTOR, timeout=SILENCE)
        try:
            connection.request("GET", "/leader?watch=true")
            for line in connection.getresponse():
                lead.hear(json.loads(line))
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            pass  # The last proof ends by itself, at validUntil.
        finally:
            connection.close()
        time.sleep(REDIAL)


def main() -> None:
    # At once: as soon as the process is gone, so is its work.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    lead = Lead()
    threading.Thread(target=follow, args=(lead,), daemon=True).start()
    while True:
        token = lead.token()
        if token is not None:
            with LEDGER.open("a", encoding="ascii") as ledger:  # one unit of work
                ledger.write(f"{token}\n")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
