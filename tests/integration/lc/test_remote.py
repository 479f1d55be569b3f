"""Remote files come as a whole or not at all, and go where they are to go."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from lc.core.learning.paths import is_remote
from lc.files.remote_files import Remote, RemoteError, shown
from tests.integration.lc.stocked import stocked
from tests.unit.lc.documents import document


class Bucket:
    """A server with files; `asked` has (method, path, names of query parameters)."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str, set[str]]] = []
        # By path: where the file is instead.
        self.moved: dict[str, str] = {}
        # So many bytes of each answer are sent, though more are announced.
        self.cut_after: int | None = None
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self._path()
                content = owner.files.get(path)
                if path in owner.moved:
                    self.send_response(307)
                    self.send_header("Location", owner.moved[path])
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if content is None:
                    self.send_error(404, "NoSuchKey")
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: owner.cut_after])
                self.close_connection = owner.cut_after is not None

            def do_PUT(self) -> None:
                path = self._path()
                if path.startswith("/denied"):
                    self.send_error(403, "AccessDenied")
                    return
                owner.files[path] = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def _path(self) -> str:
                parts = urlsplit(self.path)
                owner.asked.append((self.command, parts.path, set(parse_qs(parts.query))))
                return parts.path

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def secret(self) -> dict[str, str]:
        return {
            "s3-endpoint": self.host,
            "s3-usehttps": "0",
            "s3-region": "us-east-1",
            "ACCESS_KEY_ID": "an-access-key",
            "SECRET_ACCESS_KEY": "a-secret-key",
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    it = Bucket()
    yield it
    it.close()


def fetched(url: str, target: Path, secret: dict[str, str] | None = None) -> None:
    async def fetch() -> None:
        remote = Remote()
        try:
            await remote.fetch(url, target, secret)
        finally:
            await remote.close()

    asyncio.run(fetch())


def uploaded(source: Path, url: str, secret: dict[str, str] | None = None) -> None:
    async def upload() -> None:
        remote = Remote()
        try:
            await remote.upload(source, url, secret)
        finally:
            await remote.close()

    asyncio.run(upload())


def test_a_file_is_fetched_and_uploaded(bucket: Bucket, tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    bucket.files["/m/1.pb"] = content
    fetched(f"{bucket.url}/m/1.pb", tmp_path / "1.pb")
    assert (tmp_path / "1.pb").read_bytes() == content
    uploaded(tmp_path / "1.pb", f"{bucket.url}/m/2.pb")
    assert bucket.files["/m/2.pb"] == content


def test_s3_is_asked_with_a_signature(bucket: Bucket, tmp_path: Path) -> None:
    bucket.files["/models/a%20b/1.pb"] = b"model"
    fetched("s3://models/a b/1.pb", tmp_path / "1.pb", bucket.secret)
    assert (tmp_path / "1.pb").read_bytes() == b"model"
    uploaded(tmp_path / "1.pb", "s3://models/2.pb", bucket.secret)
    assert bucket.files["/models/2.pb"] == b"model"
    for _, _, parameters in bucket.asked:
        assert {"X-Amz-Signature", "X-Amz-Credential", "X-Amz-Expires"} <= parameters


def test_no_url_leads_to_lc_its_relay_or_the_clouds_metadata(
    bucket: Bucket, tmp_path: Path
) -> None:
    """They would answer LC, and not the author of the URL. Nor does a redirect."""
    own, elsewhere = Bucket(), bucket
    own.files["/secrets"] = b"of the relay"
    port = int(own.host.rpartition(":")[2])
    elsewhere.moved["/moved"] = f"{own.url}/secrets"
    elsewhere.files["/1.pb"] = b"model"

    async def scene() -> None:
        remote = Remote(own_ports={port})
        try:
            for url in (
                f"{own.url}/secrets",
                f"http://localhost:{port}/secrets",
                f"http://0.0.0.0:{port}/secrets",
                f"http://[::ffff:127.0.0.1]:{port}/secrets",
                f"{elsewhere.url}/moved",
            ):
                with pytest.raises(RemoteError, match="is LC, or its relay"):
                    await remote.fetch(url, tmp_path / "1.pb", None)
            with pytest.raises(RemoteError, match="is LC, or its relay"):
                await remote.upload(Path(__file__), f"{own.url}/secrets", None)
            with pytest.raises(RemoteError, match="of the node itself, or its cloud"):
                await remote.fetch("http://169.254.169.254/latest", tmp_path / "1.pb", None)
            await remote.fetch(f"{elsewhere.url}/1.pb", tmp_path / "1.pb", None)
        finally:
            await remote.close()

    asyncio.run(scene())
    assert own.asked == []
    assert (tmp_path / "1.pb").read_bytes() == b"model"
    own.close()


def test_what_breaks_off_leaves_nothing(bucket: Bucket, tmp_path: Path) -> None:
    target = tmp_path / "1.pb"
    target.write_bytes(b"before")
    bucket.files["/1.pb"] = b"x" * 100_000
    bucket.cut_after = 50_000
    with pytest.raises(RemoteError, match="cannot be reached"):
        fetched(f"{bucket.url}/1.pb", target)
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_bytes() == b"before"


def test_a_refusal_says_why(bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="answered 404"):
        fetched(f"{bucket.url}/none", tmp_path / "x")
    source = tmp_path / "source"
    source.write_bytes(b"1")
    with pytest.raises(RemoteError, match="answered 403"):
        uploaded(source, f"{bucket.url}/denied/x")
    with pytest.raises(RemoteError, match="no Secret with s3-endpoint"):
        fetched("s3://models/1.pb", tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        uploaded(tmp_path / "none", f"{bucket.url}/x")


def test_nothing_secret_is_shown() -> None:
    assert shown("https://user:word@h:1/p?token=x#f") == "https://h:1/p"
    assert shown("/srv/d.txt") == "/srv/d.txt"
    assert is_remote("s3://b/k")
    assert not is_remote("file:///srv/d.txt")


def test_a_dataset_on_s3_is_counted_with_the_secret_that_was_mounted(
    bucket: Bucket, tmp_path: Path
) -> None:
    bucket.files["/data/d.csv"] = b"x,y\n1,2\n3,4\n"
    folder = tmp_path / "shop" / "s3-keys"
    folder.mkdir(parents=True)
    for key, value in bucket.secret.items():
        (folder / key).write_text(value)
    spec = {"url": "s3://data/d.csv", "format": "csv", "credentialName": "s3-keys"}
    flags = [f"--secrets-dir={tmp_path}"]
    with stocked(document("dataset", "a", spec=spec), flags=flags) as lc:
        lc.until(lambda status: status["objects"][0]["note"] == "2 samples")
        assert "a-secret-key" not in lc.log_text()
