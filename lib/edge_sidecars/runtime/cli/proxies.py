"""By which HTTP proxy a server is reached: what HTTPS_PROXY, HTTP_PROXY and NO_PROXY say.

Pure. Decides as Go's net/http does (golang.org/x/net/http/httpproxy), so that kubectl and a
component with the same variables take the same way: of both cases of letters the upper one wins,
and loopback is never asked by a proxy. Differs where Go ignores a value that it cannot use: that is
`BadInput` here, and only where the proxy would be used. A password is in no message and no repr.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import unquote, urlsplit

from edge_sidecars.runtime.cli.values import BadInput, url

# In the order in which Go looks (httpproxy, FromEnvironment).
HTTPS: Final = ("HTTPS_PROXY", "https_proxy")
HTTP: Final = ("HTTP_PROXY", "http_proxy")
NO: Final = ("NO_PROXY", "no_proxy")
_PORTS: Final = {"http": 80, "https": 443}
_IP = IPv4Address | IPv6Address


@dataclass(frozen=True)
class HttpProxy:
    """For https servers it makes a tunnel (RFC 9110, 9.3.6), through which TLS passes as it is; to
    http servers it forwards each request. `url`: http or https, without a user; `authorization`:
    its Proxy-Authorization header, "" where it wants none."""

    url: str
    authorization: str = field(default="", repr=False)

    @property
    def headers(self) -> dict[str, str]:
        return {"Proxy-Authorization": self.authorization} if self.authorization else {}


def http_proxy(text: str) -> HttpProxy:
    """`http://user:password@host:port`, or `host:port`. Raises `BadInput` without the password."""
    whole = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(whole)
        user, colon, host = parts.netloc.rpartition("@")
        shown = f"{parts.scheme}://{host}"
    except ValueError:
        raise BadInput("no URL: write it like http://proxy.example:3128") from None
    if parts.scheme not in _PORTS:
        raise BadInput(
            f"{shown!r:.80}: only http:// and https:// proxies are spoken to (no socks5): name one "
            "of these"
        )
    try:
        url(shown)
    except BadInput:
        raise BadInput(
            f"{shown!r:.80} is no URL of a proxy: write it like http://proxy.example:3128"
        ) from None
    return HttpProxy(shown, _basic(user) if colon else "")


def _basic(user: str) -> str:
    """As Go: the user without a password has an empty one."""
    name, _, password = user.partition(":")
    pair = f"{unquote(name)}:{unquote(password)}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


@dataclass(frozen=True, kw_only=True)
class ProxyVariables:
    """Name and value of those that say something; "" where none does."""

    https: tuple[str, str] = field(default=("", ""), repr=False)
    http: tuple[str, str] = field(default=("", ""), repr=False)
    no_proxy: str = ""

    def proxy_for(self, server: str) -> HttpProxy | None:
        """Raises `BadInput`, which names the variable, for one that cannot be used."""
        parts = urlsplit(server)
        name, value = self.https if parts.scheme == "https" else self.http
        host = _ascii((parts.hostname or "").lower())
        port = parts.port or _PORTS.get(parts.scheme, 0)
        if not value or _is_excluded(host, port, self.no_proxy):
            return None
        try:
            return http_proxy(value)
        except BadInput as error:
            raise BadInput(f"{name} {error}, or put {host} into NO_PROXY") from error


NO_PROXIES: Final = ProxyVariables()


def proxy_variables(environ: Mapping[str, str]) -> ProxyVariables:
    def first(names: tuple[str, str]) -> tuple[str, str]:
        return next(((it, environ[it]) for it in names if environ.get(it)), ("", ""))

    return ProxyVariables(https=first(HTTPS), http=first(HTTP), no_proxy=first(NO)[1])


def _is_excluded(host: str, port: int, no_proxy: str) -> bool:
    """Whether it is asked directly."""
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = (each.strip().lower() for each in no_proxy.split(","))
    return any(_matches(each, host, port, address) for each in entries if each)


def _matches(entry: str, host: str, port: int, address: _IP | None) -> bool:
    if entry == "*":
        return True
    if "/" in entry and entry.rpartition("/")[2].isdecimal():
        try:
            network = ip_network(entry, strict=False)
        except ValueError:
            pass
        else:
            return address is not None and address in network
    name, its_port = _split(entry)
    if its_port and its_port != str(port):
        return False
    found = _address(name)
    if found is not None or address is not None:
        return found == address
    name = name.removeprefix("*") if name.startswith("*.") else name
    suffix = "." + _ascii(name.removeprefix("."))
    is_own_too = not name.startswith(".")
    return bool(name) and (host.endswith(suffix) or (is_own_too and host == suffix[1:]))


def _split(entry: str) -> tuple[str, str]:
    """Host and port; as Go's net.SplitHostPort where that takes it, else all of it is the host."""
    host, colon, port = entry.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if not colon or (":" in host and not is_bracketed):
        return entry, ""
    return host[1:-1] if is_bracketed else host, port


def _address(text: str) -> _IP | None:
    """An IPv4 address in IPv6's form is that IPv4 address."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def _ascii(host: str) -> str:
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host
