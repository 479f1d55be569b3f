"""A bucket on S3 as far as LC asks: objects are put and got, each with its ETag.

A real server on a port of its own; whoever does not sign with the bucket's key is refused.
"""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

KEY = "the-key"


class Bucket:
    """`objects` by `bucket/key`; `asked`: method, key and status of each request."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, int]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner._get(self)

            def do_PUT(self) -> None:
                owner._put(self)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def __enter__(self) -> "Bucket":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def secret(self, folder: Path, name: str) -> None:
        """As a volume has it, for LC."""
        place = folder / name
        place.mkdir(parents=True)
        endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        values = {"s3-endpoint": endpoint, "s3-region": "here"}
        values |= {"ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": "secret"}
        for key, value in values.items():
            (place / key).write_text(value)

    def _get(self, request: BaseHTTPRequestHandler) -> None:
        key = self._key(request)
        if key is None:
            return
        body = self.objects.get(key)
        if body is None:
            self._answer(request, key, 404, b"NoSuchKey")
            return
        tag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        if request.headers.get("If-None-Match") == tag:
            self._answer(request, key, 304, b"", tag)
        else:
            self._answer(request, key, 200, body, tag)

    def _put(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        key = self._key(request)
        if key is not None:
            self.objects[key] = body
            self._answer(request, key, 200, b"")

    def _key(self, request: BaseHTTPRequestHandler) -> str | None:
        parts = urlsplit(request.path)
        credential = parse_qs(parts.query).get("X-Amz-Credential", [""])[0]
        if credential.startswith(f"{KEY}/"):
            return parts.path.lstrip("/")
        self._answer(request, parts.path, 403, b"AccessDenied")
        return None

    def _answer(
        self, request: BaseHTTPRequestHandler, key: str, status: int, body: bytes, tag: str = ""
    ) -> None:
        self.asked.append((request.command, key, status))
        request.send_response(status)
        if tag:
            request.send_header("ETag", tag)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
