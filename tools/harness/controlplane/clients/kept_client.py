"""A client of the API server that keeps its connection, as programs do: for bytes that are counted.

Guarantees: as of AdminClient, but for the fresh connections; after a request without an answer the
next one comes over a new connection. Of one thread at a time.
"""

from __future__ import annotations

import http.client

from tools.harness.controlplane.clients.admin import AdminClient, Json, Told, decode


class KeptClient(AdminClient):
    _kept: http.client.HTTPConnection | None = None

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _request(
        self, method: str, path: str, body: Json | None, content_type: str, timeout: float
    ) -> Told:
        if self._kept is None:
            self._kept = self._connection(timeout)
        elif self._kept.sock is not None:
            self._kept.sock.settimeout(timeout)
        headers, content = self._message(body, content_type)
        try:
            self._kept.request(method, path, content, headers)
            with self._kept.getresponse() as response:
                return response.status, decode(response.read())
        except http.client.HTTPException as error:
            self.close()
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        except OSError:
            self.close()
            raise
