"""Variables of the environment that nothing reads, but that look like those that a program reads.

Variables with the prefix of a program are not refused: kubelet injects some for each Service, and
a shell has its own. One that differs from a known one by at most two letters is a mistake.
"""

import re
from collections.abc import Collection, Iterator, Mapping

from edge_sidecars.runtime.cli.nearest import nearest
from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.log import fields, logger

# What kubelet injects for a Service of the same name: "tcp://10.0.0.1:80", and its parts
# (pkg/kubelet/envvars/envvars.go).
_SERVICE_NAME = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP|SCTP)(_.*)?)")
_SERVICE_URL = re.compile(r"(tcp|udp|sctp)://.*")
# locale(7): LC_ALL differs from LC_API by two letters, LC_NAME from LC_NODE.
_LOCALE = frozenset(
    f"LC_{category}"
    for category in (
        *("ADDRESS", "ALL", "COLLATE", "CTYPE", "IDENTIFICATION", "MEASUREMENT", "MESSAGES"),
        *("MONETARY", "NAME", "NUMERIC", "PAPER", "TELEPHONE", "TIME"),
    )
)


def warn_of_unknown_variables(
    parser: Parser, environ: Mapping[str, str], *, prefix: str, others: Collection[str] = ()
) -> None:
    """Logs a warning for each. `others`: further variables that the program reads."""
    for name, meant in unknown_variables(parser, environ, prefix=prefix, others=others):
        logger.warning(
            "unknown environment variable is ignored", extra=fields(variable=name, meant=meant)
        )


def name_unknown_variables(
    parser: Parser, environ: Mapping[str, str], *, prefix: str, others: Collection[str] = ()
) -> str:
    """For the end of a message; "" where there are none."""
    found = unknown_variables(parser, environ, prefix=prefix, others=others)
    return "".join(f"; {name} is not read: did you mean {meant}?" for name, meant in found)


def unknown_variables(
    parser: Parser, environ: Mapping[str, str], *, prefix: str, others: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Each with the known one that it resembles."""
    known = {*parser.twins(prefix), *others}
    for name in sorted(environ.keys() - known - _LOCALE):
        is_injected = _SERVICE_NAME.fullmatch(name) or _SERVICE_URL.fullmatch(environ[name])
        if name.startswith(prefix) and not is_injected:
            meant = nearest(name, sorted(known))
            if meant is not None:
                yield name, meant
