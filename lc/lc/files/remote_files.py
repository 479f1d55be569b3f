"""Files that lie elsewhere: s3 and http(s) URLs; their bytes as they come, or into a local file.

Guarantees: A file that is fetched is there as a whole or not at all. Nothing is held in memory but
one chunk. A server that hangs is given up. No transfer takes more bytes or seconds than the limits
say, so that a server that sends for ever, or a byte a minute, ends. No URL, and no redirect, leads
to LC itself, its relay or a link-local address. Few are asked of one host at a time, and those that
wait for it take no place of others. Long transfers are logged and shown. Credentials come from a
Secret and are never in a log line, nor is the query of a URL. minio signs, aiohttp transfers.
"""

import asyncio
import errno
import functools
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Container, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import aiohttp
import msgspec
from yarl import URL

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.daemon_thread import in_daemon_thread
from edge_sidecars.runtime.log import fields, logger

# Seconds until an answer begins, and between two chunks of it.
OPEN_TIMEOUT = 30.0
IDLE_TIMEOUT = 60.0
CHUNK = 256 * 1024
# Seconds between two lines about one transfer.
PROGRESS_INTERVAL = 10.0
# Seconds for which a signed URL is good: the request is sent at once, clocks differ.
SIGNED_FOR = 900
# Bytes of the answer that names a bucket's region, and the name in it; what S3 calls the first one
# it does not name.
MAX_LOCATION = 16 * 1024
_REGION = re.compile(rb"<LocationConstraint[^>]*>\s*([A-Za-z0-9-]{1,64})\s*<")
FIRST_REGION = "us-east-1"
# Bytes of an error's body that are shown.
MAX_REASON = 200
# Characters of what tells whether a file has changed; servers send some 30.
MAX_VALIDATOR = 1024
# Transfers at a time: of one host, and of all.
PER_HOST = 2
AT_ONCE = 32


class RemoteError(Exception):
    """`reason` says for people what is wrong, and what to do about it where we know. What of it a
    server has said may be no text: aiohttp has its bytes as lone surrogates, which no report
    holds."""

    def __init__(self, url: str, reason: str) -> None:
        printable = "".join(it if it.isprintable() else " " for it in reason)
        self.reason = " ".join(printable.split())
        super().__init__(f"{shown(url)}: {self.reason}")


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


class TransferLimits(msgspec.Struct, frozen=True):
    """Of one transfer: bytes, and seconds from its first request on."""

    size: int = 16 * 1024**3
    seconds: float = 3600.0


class Remote:
    """All transfers share its connections. `own_ports`: of this machine's loopback, where LC and
    its relay answer. They would answer LC, and not the author of a URL."""

    def __init__(
        self, limits: TransferLimits | None = None, *, own_ports: Container[int] = ()
    ) -> None:
        self._limits = limits or TransferLimits()
        self._own_ports = own_ports
        self._session: aiohttp.ClientSession | None = None
        self._trust: ssl.SSLContext | None = None
        self._transfers: list[Transfer] = []
        self._places = asyncio.Semaphore(AT_ONCE)
        # By host, while somebody asks it or waits for it; and how many do.
        self._hosts: dict[str, tuple[asyncio.Semaphore, list[int]]] = {}

    def transfers(self) -> tuple[Transfer, ...]:
        """Those that go on now."""
        return tuple(self._transfers)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def content(
        self,
        url: str,
        secret: Mapping[str, str] | None,
        *,
        validator: str = "",
        begins: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Content | None]:
        """None where it is still that of `validator`. `begins` is called once the host is asked.
        Raises `RemoteError`; so does reading."""
        headers = {"Accept-Encoding": "identity", **_condition(validator)}
        async with self._turn(url, secret) as deadline:
            begins()
            with self._transfer(url) as transfer, _told(url, self._limits, deadline):
                async with deadline:
                    signed = await self._signed("GET", url, secret)
                    session = await self._opened()
                    async with session.get(signed, headers=headers) as response:
                        if response.status == 304 and validator:
                            yield None
                            return
                        await _check(response, url)
                        transfer.size = response.content_length
                        chunks = _chunks(response, transfer, self._limits)
                        yield Content(_validator(response), transfer.size, chunks)

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
                file = await in_daemon_thread(lambda: partial.open("wb"))
                try:
                    async for chunk in content.chunks:
                        await in_daemon_thread(functools.partial(file.write, chunk))
                finally:
                    await in_daemon_thread(file.close)
            partial.replace(target)
            return content.validator
        finally:
            partial.unlink(missing_ok=True)

    async def upload(self, source: Path, url: str, secret: Mapping[str, str] | None) -> None:
        """Raises `RemoteError`, and OSError for the local side."""
        async with self._turn(url, secret) as deadline:
            with (
                source.open("rb") as file,
                self._transfer(url) as transfer,
                _told(url, self._limits, deadline),
            ):
                transfer.size = os.fstat(file.fileno()).st_size
                headers = {"Content-Length": str(transfer.size)}

                async def pieces() -> AsyncIterator[bytes]:
                    while chunk := await in_daemon_thread(lambda: file.read(CHUNK)):
                        _advance(transfer, len(chunk))
                        yield chunk

                async with deadline:
                    signed = await self._signed("PUT", url, secret)
                    session = await self._opened()
                    async with session.put(signed, data=pieces(), headers=headers) as response:
                        await _check(response, url)

    @asynccontextmanager
    async def _turn(
        self, url: str, secret: Mapping[str, str] | None
    ) -> AsyncIterator[asyncio.Timeout]:
        """Who waits for a host takes no place of others. The deadline begins when it is entered."""
        name = _host(url, secret)
        host, users = self._hosts.setdefault(name, (asyncio.Semaphore(PER_HOST), [0]))
        users[0] += 1
        try:
            async with host, self._places:
                yield asyncio.timeout(self._limits.seconds)
        finally:
            users[0] -= 1
            if not users[0]:
                del self._hosts[name]

    async def _opened(self) -> aiohttp.ClientSession:
        if self._trust is None:
            # For plain http as well, which may redirect. Reading the authorities takes a while.
            self._trust = await in_daemon_thread(ssl.create_default_context)
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._trust, socket_factory=self._socket),
                timeout=aiohttp.ClientTimeout(
                    # With looking up its name.
                    total=None,
                    connect=OPEN_TIMEOUT,
                    sock_connect=OPEN_TIMEOUT,
                    sock_read=IDLE_TIMEOUT,
                ),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def _signed(self, method: str, url: str, secret: Mapping[str, str] | None) -> URL:
        """An http(s) URL that may be asked with this method. Raises ValueError for what is none."""
        if not is_s3(url):
            return URL(url)
        values = dict(secret or {})
        if values.get("ACCESS_KEY_ID") and not values.get("s3-region"):
            values["s3-region"] = await self._region(url, values)
        # What is signed may not be written otherwise.
        return URL(await in_daemon_thread(lambda: _presigned(method, url, values)), encoded=True)

    async def _region(self, url: str, values: Mapping[str, str]) -> str:
        """Of a bucket, as S3 says (GetBucketLocation), asked as any other server is: minio's own
        client goes anywhere, reads without end, and believes the answer to be XML."""
        asked = await in_daemon_thread(lambda: _location(url, values))
        session = await self._opened()
        answer = b""
        async with session.get(URL(asked, encoded=True)) as response:
            await _check(response, url)
            async for chunk in response.content.iter_any():
                answer += chunk
                if len(answer) > MAX_LOCATION:
                    break
        found = _REGION.search(answer)
        if found is None:
            return FIRST_REGION
        return "eu-west-1" if found[1] == b"EU" else found[1].decode()

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        """For each address that a name, or an answer that leads elsewhere, has led to."""
        family, kind, protocol, _, (host, port, *_) = info
        address = ip_address(host.partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_link_local:
            raise PermissionError(errno.EACCES, f"{address} is of the node itself, or its cloud")
        is_here = address.is_loopback or address.is_unspecified
        if is_here and port in self._own_ports:
            raise PermissionError(errno.EACCES, f"{address}:{port} is LC, or its relay")
        return socket.socket(family, kind, protocol)

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
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition(':')[0]:.10}://..."
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if parts.scheme else url


def is_s3(url: str) -> bool:
    return url[:5].lower() == "s3://"


def _host(url: str, secret: Mapping[str, str] | None) -> str:
    """Who is asked, as far as it can be known."""
    if is_s3(url):
        return _endpoint(secret or {})
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _endpoint(values: Mapping[str, str]) -> str:
    return values.get("s3-endpoint") or values.get("S3_ENDPOINT_URL") or ""


def _presigned(method: str, url: str, values: Mapping[str, str]) -> str:
    # Only who has something on S3 pays for it.
    from datetime import timedelta

    from minio import Minio
    from minio.error import MinioException

    parts, endpoint = urlsplit(url), _endpoint_url(url, values)
    try:
        client = Minio(
            endpoint.netloc,
            access_key=values.get("ACCESS_KEY_ID"),
            secret_key=values.get("SECRET_ACCESS_KEY"),
            secure=endpoint.scheme == "https",
            region=values.get("s3-region") or FIRST_REGION,
        )
        return client.get_presigned_url(
            method, parts.netloc, parts.path.lstrip("/"), expires=timedelta(seconds=SIGNED_FOR)
        )
    except (MinioException, ValueError) as error:
        raise RemoteError(url, f"{error}") from error


def _location(url: str, values: Mapping[str, str]) -> str:
    """The URL at which S3 says where the bucket of this one is."""
    from datetime import UTC, datetime

    from minio.credentials.credentials import Credentials
    from minio.signer import presign_v4

    bucket = urlsplit(url).netloc
    place = _endpoint_url(url, values)._replace(path=f"/{bucket}", query="location=")
    try:
        own = Credentials(values["ACCESS_KEY_ID"], values.get("SECRET_ACCESS_KEY", ""))
        signed = presign_v4(
            method="GET",
            url=place,
            region=FIRST_REGION,
            credentials=own,
            date=datetime.now(UTC),
            expires=SIGNED_FOR,
        )
    except ValueError as error:
        raise RemoteError(url, f"{error}") from error
    return signed.geturl()


def _endpoint_url(url: str, values: Mapping[str, str]) -> SplitResult:
    """Of S3, as the Secret names it: scheme and host. Raises `RemoteError`."""
    endpoint = _endpoint(values)
    if not endpoint:
        raise RemoteError(
            url,
            "no Secret with s3-endpoint, ACCESS_KEY_ID and SECRET_ACCESS_KEY is mounted here: name "
            "it in credentialName, and mount it under --secrets-dir/<namespace>/<name>",
        )
    scheme, has_scheme, host = endpoint.rpartition("://")
    is_https = scheme == "https" if has_scheme else values.get("s3-usehttps", "1") != "0"
    return SplitResult("https" if is_https else "http", host.rstrip("/"), "", "", "")


def _validator(response: aiohttp.ClientResponse) -> str:
    """ "" for one that is no text, or too long to be kept: the file is fetched each time then."""
    headers = response.headers
    found = headers.get("ETag") or headers.get("Last-Modified") or ""
    return found if found.isprintable() and len(found) <= MAX_VALIDATOR else ""


def _condition(validator: str) -> dict[str, str]:
    """RFC 9110, 13.1: an entity tag is quoted, a date is not."""
    if not validator:
        return {}
    is_tag = validator.startswith(('"', "W/"))
    return {"If-None-Match" if is_tag else "If-Modified-Since": validator}


async def _chunks(
    response: aiohttp.ClientResponse, transfer: Transfer, limits: TransferLimits
) -> AsyncIterator[bytes]:
    if (transfer.size or 0) > limits.size:
        raise _TooLarge
    async for chunk in response.content.iter_chunked(CHUNK):
        _advance(transfer, len(chunk))
        if transfer.done > limits.size:
            raise _TooLarge
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
        reason = (await response.content.read(MAX_REASON)).decode(errors="replace").strip()
        raise RemoteError(url, " ".join(f"answered {response.status} {reason}".split()))


class _TooLarge(Exception):
    """More bytes than a transfer may have."""


@contextmanager
def _told(url: str, limits: TransferLimits, deadline: asyncio.Timeout) -> Iterator[None]:
    """What goes wrong as `RemoteError`."""
    try:
        yield
    except _TooLarge as error:
        what = f"is larger than {limits.size} bytes: raise --max-transfer-size, or lay it elsewhere"
        raise RemoteError(url, what) from error
    except TimeoutError as error:  # aiohttp's are some
        what = "does not answer in time"
        if deadline.expired():
            what = f"took longer than {limits.seconds:g}s: raise --transfer-timeout"
        raise RemoteError(url, what) from error
    except aiohttp.ClientError as error:
        raise RemoteError(url, f"cannot be reached: {type(error).__name__} {error}") from error
    except ValueError as error:
        raise RemoteError(url, f"cannot be asked for: {error}") from error
