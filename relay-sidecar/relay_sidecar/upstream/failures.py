"""What a client gets where upstream's answer breaks off, is too long, or did not come; what that
says about the link.
"""

import socket
import struct
from http import HTTPStatus

from aiohttp.http import HttpVersion11

from edge_sidecars.apimachinery.status import Status, timeout_outcome_unknown, unavailable
from edge_sidecars.kubeapi import NotSent, ProxyRefused, TooLong, Unreachable
from edge_sidecars.runtime.scarcity import report
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.core.link import LinkEvidence, failure_evidence

# struct linger {on, seconds}, socket(7): closing sends a reset.
RESET = struct.pack("ii", 1, 0)


def evidence_of(error: Unreachable) -> LinkEvidence:
    """What a request that ended so says about the link."""
    lack = error.lack
    if lack is not None:
        report(lack, what="requests to the API server")
        return LinkEvidence.SCARCE
    is_full = isinstance(error, ProxyRefused) and error.is_full
    return failure_evidence(is_late=error.is_late, is_full=is_full)


def broken_off(
    request: web.BaseRequest, response: web.StreamResponse | None, error: Unreachable
) -> web.StreamResponse:
    """What was begun cannot be taken back: the client is to see that it is not whole. Raises the
    error where nothing was sent."""
    if response is None or not response.prepared:
        raise error
    transport = request.transport
    if transport is None:
        return response
    if request.version >= HttpVersion11:
        # Without the last chunk, or short of its length; what is there still arrives.
        transport.close()
    else:
        # It takes any end for the end, but not a reset.
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        transport.abort()
    return response


def outcome_of_write(error: Unreachable) -> Status:
    if isinstance(error, NotSent):
        return unavailable(f"nothing was written, upstream is out of reach: {error}")
    return timeout_outcome_unknown()


def too_long(request: web.BaseRequest, error: TooLong) -> Status:
    """Without Retry-After: it would be as long again."""
    message = f"the answer to {request.path} is {error}"
    return Status(code=HTTPStatus.INTERNAL_SERVER_ERROR, reason="InternalError", message=message)
