"""Sockets of kubelet's plugins that the last boot left behind: removed before kubelet starts.

A kubelet that finds such a socket dials it with gRPC's growing pauses (1, 1.6, 2.6, 4.2 s). The
plugin that comes up meanwhile waits for the next try, and each pod with a volume of it for the next
one after that: some four seconds of a reboot. Guarantees: only a socket that refuses a connection
is removed. While kubelet runs it must not be called: kubelet forgets a plugin whose socket goes.
"""

import socket
from pathlib import Path
from typing import Final

# Kubernetes, pkg/kubelet/config: where plugins register.
REGISTRY: Final = Path("/var/lib/kubelet/plugins_registry")


def remove_dead_sockets(root: Path) -> list[Path]:
    """Returns those that were removed."""
    folder = root / REGISTRY.relative_to("/")
    try:
        dead = [it for it in sorted(folder.iterdir()) if it.is_socket() and _refuses(it)]
        for path in dead:
            path.unlink()
    except OSError:
        # Kubelet does without: it is slower.
        return []
    return [REGISTRY / it.name for it in dead]


def _refuses(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
