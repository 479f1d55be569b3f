"""Refuses a POST on loopback that a web page in a browser of this machine may have sent.

Knows no path. A page can send a request to 127.0.0.1 and needs no answer. The guard therefore
refuses what only a page sends (Fetch, "Origin header", and Fetch Metadata) and what a page can send
without asking first (a CORS-safelisted Content-Type). A name in Host that is not this machine's is
DNS rebinding. Clients that are no browser send none of these headers and are not affected.
"""

from collections.abc import Container
from ipaddress import ip_address
from typing import NamedTuple

from multidict import MultiMapping

from edge_sidecars.runtime.web import aiohttp_web as web

JSON = "application/json"
# The values of a request that the user, or a page of this very server, caused.
_OWN_SITES = ("none", "same-origin")


class CrossSiteRefusal(NamedTuple):
    """`status` 403 or 415; `message` names the value and the remedy."""

    status: int
    message: str


def refusal(request: web.BaseRequest, *, hosts: Container[str] = ()) -> CrossSiteRefusal | None:
    """Returns why a POST is refused, or None. `hosts`: names in Host, in lower case and without a
    port, that are this process' beside localhost and the loopback addresses."""
    return check_headers(request.headers, has_body=request.body_exists, hosts=hosts)


def refuse(request: web.BaseRequest, *, hosts: Container[str] = ()) -> web.Response | None:
    """The same as an answer in plain text."""
    refused = refusal(request, hosts=hosts)
    return refused and web.Response(status=refused.status, text=f"{refused.message}\n")


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
    if len(kinds) != 1 or kinds[0].partition(";")[0].strip().lower() != JSON:
        return CrossSiteRefusal(415, f"Content-Type {_shown(kinds)}: send {JSON}")
    return None


def is_own_host(host: str, hosts: Container[str] = ()) -> bool:
    """Whether `host` (`name`, `name:port`, `[address]:port`) is localhost, a loopback address or
    one of `hosts`."""
    name = _name(host.strip().lower())
    if name == "localhost" or name in hosts:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdecimal() or (":" in name and not name.endswith("]")):
        name = host
    if name.startswith("[") and name.endswith("]"):
        return name[1:-1]
    return name.removesuffix(".")


def _shown(values: list[str]) -> str:
    return ", ".join(f"{each!r:.80}" for each in values) or "that is missing"
