"""The API servers on which the demo can run: one small process by default, or a real control plane.

Everything after `make` is the same for both.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tools.harness.controlplane import build
from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.origin import OriginServer

PROGRAMS = ("etcd", "kube-apiserver")


@dataclass(frozen=True)
class Cluster:
    """`prepare` makes sure that `make` finds what it starts; raises BuildError."""

    title: str
    prepare: Callable[[], None]
    make: Callable[[], AbstractContextManager[ApiServer]]


def _nothing() -> None:
    """It is installed."""


def _build() -> None:
    """Says what takes so long, the first time on a machine."""
    missing = [name for name in PROGRAMS if build.find(name) is None]
    if missing:
        sys.stderr.write(
            f"demo: building {' and '.join(missing)} from source, once for this machine: "
            "some minutes (about ten on two cores); later runs start at once\n"
        )
    for name in missing:
        build.binary(name)


CLUSTERS: Mapping[str, Cluster] = {
    "local": Cluster("relay-sidecar --origin local", _nothing, OriginServer),
    "kube": Cluster(
        f"kube-apiserver {build.KUBERNETES_VERSION} and etcd {build.ETCD_VERSION}",
        _build,
        ControlPlane,
    ),
}
