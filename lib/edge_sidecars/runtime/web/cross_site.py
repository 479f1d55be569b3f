"""Refuses a POST on loopback that a web page in a browser of this machine may have sent.

Knows no path. A page can send a request to 127.0.0.1 and needs no answer. The guard therefore
refuses what only a page sends (Fetch, "Origin header", and Fetch Metadata) and what a page can send
without asking first (a CORS-safelisted Content-Type). A name in Host that is not this machine's is
DNS rebinding. Clients that are no browser send none of these headers and are not affected.
"""

import socket
from collections.abc import Container
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

from multidict import MultiMapping

from edge_sidecars.runtime.formats.media_type import media_type
from edge_sidecars.runtime.web import aiohttp_web as web

JSON = "application/json"
# The methods of what is only read.
READS = ("GET", "HEAD", "OPTIONS")
# Health and figures, which a proxy of the pod may pass on with its client's Host.
OPEN_PATHS = ("/livez", "/readyz", "/metrics")
# The values of a request that the user, or a page of this very server, caused.
_OWN_SITES = ("none", "same-origin")


class CrossSiteRefusal(NamedTuple):
    """`status` 403 or 415; `message` names the value and the remedy."""

    status: int
    message: str


def refusal(request: web.BaseRequest, *, hosts: Container[str] = ()) -> CrossSiteRefusal | None:
    """Returns why a POST is refused, or None. `hosts`: names in Host, in lower case and without a
    port, that are this process' beside localhost and the loopback addresses."""
    named = _named_by_target(request)
    if named and not is_own_host(named, hosts):
        return CrossSiteRefusal(403, _not_ours(named))
    return check_headers(request.headers, has_body=request.body_exists, hosts=hosts)


def refuse(request: web.BaseRequest, *, hosts: Container[str] = ()) -> web.Response | None:
    """The same as an answer in plain text."""
    refused = refusal(request, hosts=hosts)
    return refused and web.Response(status=refused.status, text=f"{refused.message}\n")


def guarded(request: web.BaseRequest) -> web.Response | None:
    """Returns why a listener refuses a request of any method before a handler sees it, or None.

    A head that is not UTF-8 is a 400. What changes state is refused where a web page may have
    sent it. On loopback a read by another's domain in Host is refused too, because the page that
    did DNS rebinding could read the answer. A name without a dot is no public domain; `OPEN_PATHS`
    are for proxies that keep their client's Host. A connection to another address than loopback,
    or to a Unix socket, may have any Host.
    """
    if (garbled := not_utf8(request)) is not None:
        return web.Response(status=400, text=f"{garbled}\n")
    hosts = own_hosts(request)
    if request.method not in READS:
        return refuse(request, hosts=hosts)
    host = _named_by_target(request) or request.headers.get("Host", "")
    if request.path in OPEN_PATHS or is_own_host(host, hosts) or not _is_domain(host):
        return None
    return web.Response(status=403, text=f"{_not_ours(host)}\n")


def _named_by_target(request: web.BaseRequest) -> str:
    """The host in a target of the absolute form, which goes before Host (RFC 9112, 3.2.2)."""
    target = request.raw_path
    return "" if target.startswith("/") else urlsplit(target).netloc


def _not_ours(host: str) -> str:
    return f"the Host {host!r:.80} is not this process': ask 127.0.0.1 or localhost"


def not_utf8(request: web.BaseRequest) -> str | None:
    """Returns which part of the head is not UTF-8, after percent-decoding of path and query, and
    the remedy; or None."""
    if not _is_utf8_target(request.raw_path):
        return "the path or the query is not UTF-8: percent-encode the bytes of UTF-8"
    if not all(_is_utf8(text) for pair in request.headers.items() for text in pair):
        return "a header is not UTF-8: send ASCII"
    return None


class _AnyHost:
    """Where no page can come to by a name of its own."""

    def __contains__(self, _: object) -> bool:
        return True


def own_hosts(request: web.BaseRequest) -> Container[str]:
    """The names that are this process' at the address that the client came to."""
    transport = request.transport
    here = None if transport is None else transport.get_extra_info("sockname")
    if not isinstance(here, tuple):
        return _AnyHost()
    address = ip_address(str(here[0]).partition("%")[0])
    return (socket.gethostname().lower(),) if address.is_loopback else _AnyHost()


def _is_utf8(text: str) -> bool:
    # What is not UTF-8 comes from aiohttp as lone surrogates.
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _is_utf8_target(target: str) -> bool:
    if "%" not in target:
        return _is_utf8(target)
    try:
        unquote_to_bytes(target).decode()
    except UnicodeError:  # of a raw byte, or of one in percent
        return False
    return True


def _is_domain(host: str) -> bool:
    """Whether a stranger may own the name. An address needs no look-up, which is what DNS
    rebinding answers."""
    name = host_name(host)
    try:
        ip_address(name)
    except ValueError:
        return "." in name
    return False


def check_headers(
    headers: MultiMapping[str], *, has_body: bool, hosts: Container[str] = ()
) -> CrossSiteRefusal | None:
    host = headers.getall("Host", [])
    if len(host) != 1 or not is_own_host(host[0], hosts):
        return CrossSiteRefusal(
            403, f"the Host {_shown(host)} is not this process': ask 127.0.0.1 or localhost"
        )
    origin = headers.getall("Origin", [])
    if origin and origin not in ([f"http://{host[0]}"], [f"https://{host[0]}"]):
        return CrossSiteRefusal(
            403, f"the Origin {_shown(origin)} is another site's: send none from a program"
        )
    site = headers.getall("Sec-Fetch-Site", [])
    if any(each.strip().lower() not in _OWN_SITES for each in site):
        return CrossSiteRefusal(
            403, f"Sec-Fetch-Site {_shown(site)} says that a web page of another site sent this"
        )
    if not has_body:
        return None
    kinds = headers.getall("Content-Type", [])
    if len(kinds) != 1 or media_type(kinds[0]) != JSON:
        return CrossSiteRefusal(415, f"Content-Type {_shown(kinds)}: send {JSON}")
    return None


def is_own_host(host: str, hosts: Container[str] = ()) -> bool:
    """Whether `host` (`name`, `name:port`, `[address]:port`) is localhost, a loopback address or
    one of `hosts`."""
    name = host_name(host)
    if name == "localhost" or name in hosts:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """The name or address in a Host of `name`, `name:port` or `[address]:port`, in lower case."""
    text = host.strip().lower()
    name, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or (":" in name and not name.endswith("]")):
        name = text
    if name.startswith("[") and name.endswith("]"):
        return name[1:-1]
    return name.removesuffix(".")


def _shown(values: list[str]) -> str:
    return ", ".join(f"{each!r:.80}" for each in values) or "that is missing"
