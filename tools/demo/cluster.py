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
from tools.harness.controlplane.local_apiserver import LocalApiServerProcess

PROGRAMS = ("etcd", "kube-apiserver")
LOCAL, KUBE = "local", "kube"


@dataclass(frozen=True)
class Cluster:
    """`prepare` makes sure that `make` finds what it starts; raises BuildError."""

    title: str
    prepare: Callable[[], None]
    make: Callable[[], AbstractContextManager[ApiServer]]


def _nothing() -> None:
    """It is installed."""


def _build_programs() -> None:
    """Says what takes so long, the first time on a machine. Raises BuildError."""
    missing = [name for name in PROGRAMS if build.find(name) is None]
    if missing:
        sys.stderr.write(
            f"demo: building {' and '.join(missing)} from source, once for this machine: "
            "some minutes (about ten on two cores); later runs start at once\n"
        )
    for name in missing:
        build.binary(name)


CLUSTERS: Mapping[str, Cluster] = {
    LOCAL: Cluster("the local API server", _nothing, LocalApiServerProcess),
    KUBE: Cluster(
        f"kube-apiserver {build.KUBERNETES_VERSION} and etcd {build.ETCD_VERSION}",
        _build_programs,
        ControlPlane,
    ),
}
