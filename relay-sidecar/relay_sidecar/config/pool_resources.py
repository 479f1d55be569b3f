"""What `--pool-resource` names: a resource as `--preload` does, whose content is the same for all
members of a pool. Pure.

Guarantee: what says who may do what, what is secret, and what says which nodes there are is never
taken from a peer.
"""

from collections.abc import Sequence
from typing import Final

from edge_sidecars.runtime.cli.values import BadInput
from relay_sidecar.config.preload import Preload, parse_preload, parse_resource

# A declaration; None: of nothing at all.
PoolResource = Preload | None

NONE: Final = "none"
DEFAULT: Final = ("services", "endpointslices.discovery.k8s.io")
# As many as a member tells its peers of.
MAX_RESOURCES: Final = 16
# Plural and group (pool.md 4): secrets and what pods run with, identities, the state of nodes, and
# the directory of the pool itself.
_REFUSED: Final = frozenset(
    {
        *((it, "") for it in ("secrets", "configmaps", "serviceaccounts", "nodes", "pods")),
        ("poolmembers", "pool.edge-sidecars.io"),
    }
)
_REFUSED_GROUPS: Final = frozenset(
    {
        *("authentication.k8s.io", "authorization.k8s.io", "rbac.authorization.k8s.io"),
        *("admissionregistration.k8s.io", "certificates.k8s.io", "coordination.k8s.io"),
    }
)


def parse_pool_resource(text: str) -> PoolResource:
    """Raises `BadInput`."""
    if text == NONE:
        return None
    found = parse_resource(text)
    if (found.plural, found.group) in _REFUSED or found.group in _REFUSED_GROUPS:
        raise BadInput(
            f"{text!r:.120} is never taken from a neighbour: name what is the same for all nodes "
            "and secret to none, like services"
        )
    return found


def chosen(given: Sequence[PoolResource]) -> tuple[Preload, ...]:
    """The default where none is given. Raises `BadInput`."""
    if not given:
        return tuple(map(parse_preload, DEFAULT))
    if None in given and len(given) > 1:
        raise BadInput(f"--pool-resource {NONE} beside others: drop one")
    found = tuple(it for it in given if it is not None)
    if len(found) > MAX_RESOURCES:
        raise BadInput(f"--pool-resource {len(found)} times: at most {MAX_RESOURCES}")
    names = [(it.plural, it.group) for it in found]
    for plural, group in names:
        if names.count((plural, group)) > 1:
            name = f"{plural}.{group}" if group else plural
            raise BadInput(f"--pool-resource {name} twice: name it once, for all that is shared")
    return found
