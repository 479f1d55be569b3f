"""What `make explore` explores: the longest first, so that two processes end together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.explore.search import Config
from tools.explore.single import single

MAKERS: dict[str, Callable[..., Config]] = {"single": single}


@dataclass(frozen=True)
class Task:
    """A configuration by the call that makes it, which is what a play is written with."""

    call: str

    def config(self) -> Config:
        made = eval(self.call, {"__builtins__": {}}, dict[str, Any](MAKERS))
        assert isinstance(made, Config)
        return made


SUITE = [
    Task("single(rates=(1.0, 1.0), faults=2)"),
    Task("single(rates=(0.95, 1.0), faults=2)"),
    Task('single(rates=(1.0, 1.0), client_go="0.37", faults=1)'),
    Task('single(rates=(1.0, 1.0), client_go="0.26", faults=1)'),
]
DEEP = [
    Task("single(rates=(1.0, 1.0), faults=3)"),
]
