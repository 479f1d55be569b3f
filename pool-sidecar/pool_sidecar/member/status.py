"""The documents of /status and /sources, computed in the request that asks."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.web.listener_metrics import figures
from pool_sidecar.core.lan_state import LanState
from pool_sidecar.core.members import Directory
from pool_sidecar.core.peers import STATE_VALID
from pool_sidecar.core.pool_member import Verdict
from pool_sidecar.core.pool_streams import PoolStream
from pool_sidecar.member.member import Member

Document = dict[str, Any]
# Seconds for which a line of /sources holds.
VALID: Final = STATE_VALID


def sources(member: Member) -> Document:
    """What relays of this node go by."""
    now = boottime()
    pool = member.pool
    hub = pool.hub(now)
    return {
        "node": member.config.node,
        "role": pool.role(now).value,
        "candidate": pool.is_candidate,
        "link": pool.link(now).value,
        "hub": {"node": hub, "live": _texts(pool.live(hub, now))} if hub else None,
        "detour": bool(pool.via(now)),
        "via": pool.via(now),
        "own": _own(member, now),
        "peers": [_streams(it.state, pool.directory) for it in pool.peers.heard(now)],
        "verdicts": {name: it.verdict.value for name, it in pool.peers.verdicts(now).items()},
        "validSeconds": VALID,
    }


def _texts(cursors: Mapping[str, int]) -> Document:
    return {resource: str(cursor) for resource, cursor in cursors.items()}


def _streams(state: LanState, directory: Directory) -> Document:
    """Only who may lead is believed about them."""
    peer = directory.peers.get(state.node)
    streams = state.streams if peer is not None and peer.may_lead else ()
    return _document(state.node, streams)


def _own(member: Member, now: float) -> Document | None:
    """What this node's relay shows, for the other relays of this node; None where it may not
    lead."""
    if not member.pool.is_candidate:
        return None
    return _document(member.config.node, member.pool.streams.shared(now))


def _document(node: str, streams: Sequence[PoolStream]) -> Document:
    return {
        "node": node,
        "cursors": {it.resource: str(it.cursor) for it in streams},
        "windows": {it.resource: str(it.window) for it in streams},
        "live": [it.resource for it in streams if it.is_live],
    }


def status(member: Member) -> Document:
    now = boottime()
    pool = member.pool
    return {
        "version": VERSION,
        "uptimeSeconds": round(now - member.started_at, 3),
        "listeners": figures(),
        "node": member.config.node,
        "pool": member.directory.pool,
        "isReady": not member.lack,
        "lack": member.lack or None,
        "role": pool.role(now).value,
        "hub": pool.hub(now) or None,
        "link": pool.link(now).value,
        "via": pool.via(now),
        "ownLink": pool.own.is_up(now),
        "lends": pool.lends(now),
        "kubelet": member.is_kubelet_ok(now),
        "borrowers": sorted(member.listener.budget.borrowers),
        "lentBytes": member.listener.tunnels.passed,
        "heartbeats": member.heartbeats,
        "streams": [it.document() for it in pool.streams.shared(now)],
        "shared": [it.document() for it in pool.stream_health(now)],
        "readers": sorted(member.listener.readers.names),
        "peers": [_peer(member, name, now) for name in sorted(member.directory.peers)],
    }


def _peer(member: Member, name: str, now: float) -> Document:
    standing = member.pool.peers.standing(name, now)
    state = member.pool.peers.state(name, now)
    verdict: Verdict | None = None if standing is None else standing.verdict
    return {
        "node": name,
        "addresses": list(member.directory.peers[name].addresses),
        "verdict": None if verdict is None else verdict.value,
        "seconds": None if standing is None else round(now - standing.since, 3),
        "link": None if state is None else state.link.value,
    }
