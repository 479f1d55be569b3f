"""Whether upstream is ready, asked for where it refuses what it allowed before.

A kube-apiserver that has just been started serves before its authorizers have read roles, bindings
and the graph of nodes: for a second or two it answers 403 to what is allowed. Its `/readyz`, which
needs no rights, says so (the check `informer-sync`), though it may be ready a moment before it
knows all roles. A refusal therefore counts when it comes again a second after upstream has said
that it is ready, or after a minute. Nothing that is kept is lost for less, and a right that was
withdrawn ends its stream that second later.
"""

from http import HTTPStatus
from typing import Final

from edge_sidecars.kubeapi import ApiError, Unreachable
from relay_sidecar.upstream.reflector.feed import Feed

READYZ: Final = "/readyz"
# Seconds from when upstream is ready until what it refuses counts.
SETTLED: Final = 1.0
# Seconds after which it counts though upstream does not call itself ready: it may never do.
LONGEST_START: Final = 60.0


async def is_ready(feed: Feed) -> bool:
    """False also where nobody answers."""
    try:
        await feed.page(READYZ, {})
    except ApiError as error:
        # What else it is answered with is not about being ready.
        return error.status < HTTPStatus.INTERNAL_SERVER_ERROR
    except Unreachable:
        return False
    return True
