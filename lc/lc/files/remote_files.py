"""Files that lie elsewhere: s3 and http(s) URLs; their bytes as they come, or into a local file.

Guarantees: a file that is fetched is there as a whole or not at all; nothing is held in memory but
one chunk; whoever hangs is given up; long transfers are logged and shown. Credentials come from a
Secret and never stand in a log line, nor does the query of a URL. minio signs, aiohttp transfers.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger

# Seconds until an answer begins, and between two chunks of it.
OPEN_TIMEOUT = 30.0
IDLE_TIMEOUT = 60.0
CHUNK = 256 * 1024
# Seconds between two lines about one transfer.
PROGRESS_INTERVAL = 10.0
# Seconds for which a signed URL is good: the request is sent at once, clocks differ.
SIGNED_FOR = 900
# Bytes of an error's body that are shown.
MAX_REASON = 200


class RemoteError(Exception):
    """`reason` says for people what is wrong, and what to do about it where we know."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{shown(url)}: {reason}")
        self.reason = reason


class Content(msgspec.Struct, frozen=True):
    """`validator`: what tells whether it has changed, "" where the server tells nothing; `size` in
    bytes, None where it does not tell."""

    validator: str
    size: int | None
    chunks: AsyncIterator[bytes]


@dataclass(slots=True)
class Transfer:
    """One that goes on; `began_at` on CLOCK_BOOTTIME."""

    url: str
    began_at: float
    size: int | None = None
    done: int = 0
    logged_at: float = 0.0


class Remote:
    """Open from `__aenter__` on; all transfers share its connections."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._trust: ssl.SSLContext | None = None
        self._transfers: list[Transfer] = []

    def transfers(self) -> tuple[Transfer, ...]:
        """Those that go on now."""
        return tuple(self._transfers)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def content(
        self, url: str, secret: Mapping[str, str] | None, *, validator: str = ""
    ) -> AsyncIterator[Content | None]:
        """None where it is still that of `validator`. Raises `RemoteError`; so does reading."""
        signed = await _signed("GET", url, secret)
        headers = {"Accept-Encoding": "identity", **_condition(validator)}
        with self._transfer(url) as transfer, _told(url):
            async with (await self._opened()).get(signed, headers=headers) as response:
                if response.status == 304 and validator:
                    yield None
                    return
                await _check(response, url)
                transfer.size = response.content_length
                chunks = _chunks(response, transfer)
                told = response.headers
                validator = told.get("ETag") or told.get("Last-Modified") or ""
                yield Content(validator, transfer.size, chunks)

    async def fetch(
        self, url: str, target: Path, secret: Mapping[str, str] | None, *, validator: str = ""
    ) -> str | None:
        """Into a local file, whole or not at all. The validator of what is there now; None where it
        is still `validator`. Raises `RemoteError`, and OSError for the local side."""
        partial = target.with_name(f".{target.name}.partial")
        try:
            async with self.content(url, secret, validator=validator) as content:
                if content is None:
                    return None
                with partial.open("wb") as file:
                    async for chunk in content.chunks:
                        await asyncio.to_thread(file.write, chunk)
            partial.replace(target)
            return content.validator
        finally:
            partial.unlink(missing_ok=True)

    async def upload(self, source: Path, url: str, secret: Mapping[str, str] | None) -> None:
        """Raises `RemoteError`, and OSError for the local side."""
        signed = await _signed("PUT", url, secret)
        with source.open("rb") as file, self._transfer(url) as transfer, _told(url):
            transfer.size = os.fstat(file.fileno()).st_size
            headers = {"Content-Length": str(transfer.size)}

            async def pieces() -> AsyncIterator[bytes]:
                while chunk := await asyncio.to_thread(file.read, CHUNK):
                    _advance(transfer, len(chunk))
                    yield chunk

            session = await self._opened()
            async with session.put(signed, data=pieces(), headers=headers) as response:
                await _check(response, url)

    async def _opened(self) -> aiohttp.ClientSession:
        if self._trust is None:
            # For plain http as well, which may redirect. Reading the authorities takes a while.
            self._trust = await asyncio.to_thread(ssl.create_default_context)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._trust),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=OPEN_TIMEOUT, sock_read=IDLE_TIMEOUT
                ),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    @contextmanager
    def _transfer(self, url: str) -> Iterator[Transfer]:
        now = boottime()
        transfer = Transfer(shown(url), now, logged_at=now)
        self._transfers.append(transfer)
        try:
            yield transfer
        finally:
            self._transfers.remove(transfer)


def shown(url: str) -> str:
    """For people: without what may be secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else url


async def _signed(method: str, url: str, secret: Mapping[str, str] | None) -> URL:
    """An http(s) URL that may be asked with this method."""
    if urlsplit(url).scheme.lower() != "s3":
        return URL(url)
    # It may ask S3 in which region the bucket is. What is signed may not be written otherwise.
    return URL(await asyncio.to_thread(_presigned, method, url, secret), encoded=True)


def _presigned(method: str, url: str, secret: Mapping[str, str] | None) -> str:
    # Only who has something on S3 pays for it.
    from datetime import timedelta

    import urllib3
    from minio import Minio
    from minio.error import MinioException

    parts = urlsplit(url)
    values = secret or {}
    endpoint = values.get("s3-endpoint") or values.get("S3_ENDPOINT_URL") or ""
    if not endpoint:
        raise RemoteError(
            url,
            "no Secret with s3-endpoint, ACCESS_KEY_ID and SECRET_ACCESS_KEY is mounted here: name "
            "it in credentialName, and mount it under --secrets-dir/<namespace>/<name>",
        )
    scheme, has_scheme, host = endpoint.rpartition("://")
    is_https = scheme == "https" if has_scheme else values.get("s3-usehttps", "1") != "0"
    try:
        client = Minio(
            host.rstrip("/"),
            access_key=values.get("ACCESS_KEY_ID"),
            secret_key=values.get("SECRET_ACCESS_KEY"),
            secure=is_https,
            region=values.get("s3-region"),
            http_client=urllib3.PoolManager(
                timeout=OPEN_TIMEOUT, retries=False, cert_reqs="CERT_REQUIRED"
            ),
        )
        return client.get_presigned_url(
            method, parts.netloc, parts.path.lstrip("/"), expires=timedelta(seconds=SIGNED_FOR)
        )
    except (MinioException, urllib3.exceptions.HTTPError, ValueError) as error:
        raise RemoteError(url, f"{error}") from error


def _condition(validator: str) -> dict[str, str]:
    """RFC 9110, 13.1: an entity tag is quoted, a date is not."""
    if not validator:
        return {}
    is_tag = validator.startswith(('"', "W/"))
    return {"If-None-Match" if is_tag else "If-Modified-Since": validator}


async def _chunks(response: aiohttp.ClientResponse, transfer: Transfer) -> AsyncIterator[bytes]:
    async for chunk in response.content.iter_chunked(CHUNK):
        _advance(transfer, len(chunk))
        yield chunk


def _advance(transfer: Transfer, count: int) -> None:
    transfer.done += count
    now = boottime()
    if now - transfer.logged_at >= PROGRESS_INTERVAL:
        transfer.logged_at = now
        logger.info(
            "transferring",
            extra=fields(url=transfer.url, done=transfer.done, size=transfer.size or "unknown"),
        )


async def _check(response: aiohttp.ClientResponse, url: str) -> None:
    if response.status >= 300:
        told = (await response.content.read(MAX_REASON)).decode(errors="replace").strip()
        raise RemoteError(url, " ".join(f"answered {response.status} {told}".split()))


@contextmanager
def _told(url: str) -> Iterator[None]:
    """aiohttp's errors as ours."""
    try:
        yield
    except aiohttp.ServerTimeoutError as error:
        raise RemoteError(url, "does not answer in time") from error
    except aiohttp.ClientError as error:
        raise RemoteError(url, f"cannot be reached: {type(error).__name__} {error}") from error
