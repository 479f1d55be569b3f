"""What a system asks of its parts, wherever they run: here as processes, or in containers."""

from pathlib import Path
from typing import Any, Protocol

from tools.harness.controlplane.clients.answer import Answer

Json = dict[str, Any]


class Gm(Protocol):
    def log_text(self) -> str: ...


class Lc(Protocol):
    @property
    def url(self) -> str:
        """Where its worker API is reached."""

    @property
    def root(self) -> Path:
        """Of its node's file system."""

    def wait_ready(self) -> None: ...
    def ask(self, path: str) -> Answer:
        """Fails without an answer."""

    def status(self) -> Json: ...
    def log_text(self) -> str: ...


class GmComponent(Protocol):
    """A pod of GM with its sidecars."""

    @property
    def name(self) -> str: ...
    @property
    def gm(self) -> Gm: ...
    def start(self, *, wait: bool = True) -> object: ...
    def wait_ready(self) -> None: ...
    def stop(self) -> None: ...


class EdgeComponent(Protocol):
    """A node with its LC, and the relay in mode relay."""

    @property
    def name(self) -> str:
        """In the cluster."""

    @property
    def lc(self) -> Lc: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
