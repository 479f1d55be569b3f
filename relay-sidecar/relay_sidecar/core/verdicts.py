"""What this node thinks of the others of its pool, as a line of /sources has it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Of this node on those of its pool, by their Nodes' names: `alive` has the node itself too;
    of who is in neither, nothing is to be concluded."""

    alive: frozenset[str]
    silent: frozenset[str]

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> Self | None:
        """None where the line has none, as an older pool-sidecar's, or where they do not fit."""
        match line:
            case {"node": str(node), "peers": list(peers), "verdicts": dict(verdicts)} if node:
                names = [it.get("node") for it in peers if isinstance(it, dict)]
                alive = {it for it in names if isinstance(it, str)} - verdicts.keys()
                silent = {name for name, it in verdicts.items() if it == "Silent"} - {node}
                return cls(frozenset(alive | {node}), frozenset(silent))
        return None


class VerdictSource(Protocol):
    """Where the latest verdicts are; all times are of the boot clock."""

    @property
    def valid_until(self) -> float: ...

    @property
    def on_line(self) -> list[Callable[[], None]]:
        """Called after each line."""
        ...

    def verdicts(self, now: float) -> Verdicts | None:
        """None where there are none that hold."""
        ...
