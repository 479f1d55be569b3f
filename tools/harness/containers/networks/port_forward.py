"""A way in from a network to what listens on a pod's localhost, as port-forwarding is one."""

from pathlib import Path

from docker.models.containers import Container

from tools.harness.containers.engine.lab import DockerLab

_PROGRAM = Path(__file__).with_name("port_forward_process.py").read_text(encoding="utf-8")


def forward_port(docker_lab: DockerLab, network_mode: str, address: str, port: int) -> Container:
    """Whoever comes to the address, one of the pod's own, is let in to that port on localhost."""
    return docker_lab.start(
        docker_lab.base,
        ["python3", "-c", _PROGRAM, address, str(port)],
        network_mode=network_mode,
        user="65532:65532",
    )
