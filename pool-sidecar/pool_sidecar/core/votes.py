"""Which verdicts are votes that a node is gone. Pure.

The member reports them at once, the controller counts them.
"""

from typing import Final

from pool_sidecar.core.pool_member import PeerVerdict, Verdict

# Seconds for which it must have been so (pool.md 3): four missed reports of 10 s, and a reboot of
# the host whose kernel answers while kubelet does not.
SILENT_FOR: Final = 40
DEGRADED_FOR: Final = 300


def is_vote(peer: PeerVerdict) -> bool:
    """Whether it says that the node is gone, and has been so for long enough."""
    if peer.verdict is Verdict.SILENT:
        return peer.seconds >= SILENT_FOR
    return peer.verdict is Verdict.DEGRADED and peer.seconds >= DEGRADED_FOR
