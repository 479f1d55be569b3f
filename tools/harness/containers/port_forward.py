"""A way in from a network to what listens on a pod's localhost, as port-forwarding is one."""

from pathlib import Path

from docker.models.containers import Container

from tools.harness.containers.docker_lab import Lab

_PROGRAM = Path(__file__).with_name("port_forward_process.py").read_text(encoding="utf-8")


def open_door(lab: Lab, network_mode: str, address: str, port: int) -> Container:
    """Whoever comes to the address, one of the pod's own, is let in to that port on localhost."""
    return lab.start(
        lab.base,
        ["python3", "-c", _PROGRAM, address, str(port)],
        network_mode=network_mode,
        user="65532:65532",
    )
