"""Contrib leader-elector's flags, accepted under their own names, and what they mean in ours.

Guarantees: a flag of contrib's wins over a variable of the environment; beside a flag of ours that
says the same it is refused.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from edge_sidecars.runtime.cli.options import Options, Parser, flag, named
from edge_sidecars.runtime.cli.values import Address, BadInput, address, seconds, switch
from elector_sidecar.core.timing import MARGIN, MIN_LEASE_DURATION

T = TypeVar("T")

# Each with its help.
_FLAGS = {
    "election": "= --lease",
    "election-namespace": "= --namespace",
    "id": "= --identity",
    "ttl": "= --lease-duration, raised to 3s",
    "http": "the API, and the JSON of / on every unknown path; replaces the default of --listen",
    "use-cluster-credentials": "the pod's service account",
}
# Ours, each with contrib's that says the same.
_OURS = {
    "lease": "election",
    "identity": "id",
    "namespace": "election_namespace",
    "lease_duration": "ttl",
}


def add_flags(parser: Parser) -> None:
    group = parser.add_argument_group("contrib leader-elector's flags, one or two dashes")
    for name, text in _FLAGS.items():
        value: dict[str, Any] = {"metavar": "VALUE"}
        if name == "use-cluster-credentials":
            value = {"metavar": "true|false", "nargs": "?", "const": "true"}
        group.add_argument(f"--{name}", f"-{name}", dest=_dest(name), help=text, **value)


class ContribFlags:
    """`given`: all that the command line has, ours too. What is asked for raises `BadInput`."""

    def __init__(self, given: Mapping[str, str | None]) -> None:
        self._given = given

    def as_ours(self) -> dict[str, str | None]:
        """All that is given, by the names of our options."""
        ours = dict(self._given)
        for name, contrib in _OURS.items():
            own, theirs = self._given[name], self._given[_dest(contrib)]
            if own and theirs:
                raise BadInput(
                    f"{flag(name)} {own!r:.80} and {flag(contrib)} {theirs!r:.80} say the same "
                    f"thing: drop {flag(contrib)}"
                )
            if theirs:
                ours[name] = theirs
        ttl = self.ttl()
        if ttl is not None:
            ours["lease_duration"] = f"{lease_duration(ttl):.0f}"
        return ours

    def ttl(self) -> float | None:
        """Seconds."""
        return self._parsed("ttl", seconds)

    def listen(self) -> Address | None:
        return self._parsed("http", address)

    def uses_cluster_credentials(self) -> bool:
        return bool(self._parsed("use_cluster_credentials", switch))

    def _parsed(self, name: str, parse: Callable[[str], T]) -> T | None:
        text = self._given[_dest(name)]
        return named(name, parse, text) if text else None


def lease_duration(ttl: float) -> float:
    return max(float(math.ceil(ttl)), MIN_LEASE_DURATION)


def scaled_timing(lease_duration: float, options: Options) -> dict[str, float]:
    """Contrib's short leases leave no room for our defaults: the same order, scaled down."""
    renew = min(2.0, max(1.0, lease_duration / 5))
    timeout = min(3.0, 0.9 * (lease_duration * 0.95 - renew - MARGIN))
    scaled = {"renew_interval": renew, "request_timeout": timeout}
    return {name: value for name, value in scaled.items() if not options.text(name)}


def _dest(name: str) -> str:
    return "contrib_" + name.replace("-", "_")
