"""A program, or a sub-command, from its arguments to its exit status.

Knows no event loop and no flag. Guarantees: bad input is one line on standard error and status 2;
a program to which nothing says what to do says so; logs are set up before anything is done.
"""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from edge_sidecars.runtime.cli.environment import (
    name_unknown_variables,
    warn_of_unknown_variables,
)
from edge_sidecars.runtime.cli.options import is_bare
from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.log import setup
from edge_sidecars.runtime.process import BAD_INPUT, exit_on_bad_input


class Logged(Protocol):
    """What the `Config` of each program has."""

    @property
    def log_format(self) -> str: ...

    @property
    def log_level(self) -> str: ...


C = TypeVar("C", bound=Logged)


@dataclass(frozen=True, kw_only=True)
class Program(Generic[C]):
    """`prefix`: of the env twins; `others`: further variables that it reads; `refusals`: failures
    that are bad input as `BadInput` is. `load` raises `BadInput`."""

    name: str
    prefix: str
    parser: Callable[[], Parser]
    load: Callable[[list[str], Mapping[str, str]], C]
    others: Collection[str] = ()
    refusals: tuple[type[Exception], ...] = ()

    def run(
        self, arguments: list[str], environ: Mapping[str, str], serve: Callable[[C], int | None]
    ) -> int:
        """The exit status: that of `serve`, where None is 0. Raises `SystemExit` for bad input."""
        parser = self.parser()
        if is_bare(parser, arguments, environ, prefix=self.prefix, others=self.others):
            return BAD_INPUT
        status: int | None = None
        with exit_on_bad_input(self.name, *self.refusals):
            config = self._loaded(parser, arguments, environ)
            setup(config.log_format, config.log_level)
            warn_of_unknown_variables(parser, environ, prefix=self.prefix, others=self.others)
            status = serve(config)
        return status or 0

    def _loaded(self, parser: Parser, arguments: list[str], environ: Mapping[str, str]) -> C:
        """Raises `BadInput`, which also names the variables that were meant to say something."""
        try:
            return self.load(arguments, environ)
        except BadInput as error:
            unknown = name_unknown_variables(
                parser, environ, prefix=self.prefix, others=self.others
            )
            raise BadInput(f"{error}{unknown}") from error


def run_command(name: str, work: Callable[[], int | None]) -> int:
    """The exit status of a sub-command: that of `work`, where None is 0; 2 after `BadInput`."""
    try:
        return work() or 0
    except BadInput as error:
        sys.stderr.write(f"{name}: {' '.join(str(error).split())}\n")
        return BAD_INPUT
