"""The door: with `--keep-secrets` on a node, answers to TokenRequest are kept."""

import time
from collections.abc import Iterable, Sequence

from relay_sidecar.access.opened import OpenedAccess
from relay_sidecar.core.node_needs import pods_of
from relay_sidecar.core.token_request import TokenRequestKey
from relay_sidecar.features import Hooks, Parts, Rows
from relay_sidecar.journal.sealing.sealed_secrets import TOKENS
from relay_sidecar.kept_tokens.kept_tokens import KeptTokens
from relay_sidecar.kept_tokens.token_requests import TokenRequests
from relay_sidecar.streams.stream import Stream


async def open_kept_tokens(parts: Parts) -> Hooks:
    config, access, streams = parts.config, parts.access, parts.streams
    if parts.sealer is None or access.clock is None or not access.node:
        return Hooks(status=lambda: {"tokens": []}, restart=lambda: {"callers": []})
    kept = KeptTokens(
        parts.journal,
        parts.sealer,
        access.clock,
        streams.counters,
        retain=config.retain,
        issued=access.issued,
    )
    await kept.restore(parts.saved.kept.get(TOKENS, {}))
    requests = TokenRequests(parts.proxy, kept, timeout=config.request_timeout)

    def pods() -> Stream:
        return streams.open(pods_of(access.node), now=time.monotonic())

    return Hooks(
        answer=requests.answer,
        tokens=kept,
        link=kept.link,
        size=lambda: kept.size,
        status=lambda: {"tokens": [token_row(key) for key in kept]},
        restart=lambda: {"callers": token_callers(kept.tokens(), access)},
        run=[lambda: kept.run(pods)],
    )


def token_row(key: TokenRequestKey) -> Rows:
    """For what an answer is kept; nothing of the answer."""
    pod = key.bound_object_ref
    return {
        "namespace": key.namespace,
        "serviceAccount": key.service_account,
        "podName": pod.name if pod else "",
        "podUID": key.pod_uid,
        "audiences": list(key.audiences),
        "expirationSeconds": key.expiration_seconds,
    }


def token_callers(
    tokens: Iterable[tuple[TokenRequestKey, str]], access: OpenedAccess
) -> Sequence[Rows]:
    """Pods whose tokens are kept, and the reads that upstream allowed each with its token, like
    "watch services": the relay answers these also after a restart while it is cut off. `hasRead`:
    the pod has read something since the relay started."""
    return [
        {
            "namespace": key.namespace,
            "serviceAccount": key.service_account,
            "podUID": key.pod_uid,
            "rights": list(access.rights(token)),
            "hasRead": access.has_read(token),
        }
        for key, token in tokens
    ]
