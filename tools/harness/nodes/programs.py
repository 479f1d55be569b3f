"""The programs of a node, each built from its Go module once for all checkouts: kubelet,
kube-proxy, containerd with its shim, CNI plugins, CoreDNS, flanneld; and the scheduler, which
places pods. Runs as `python3 -m tools.harness.nodes.programs`, which builds all of them.

flanneld is built from a copy of its sources without two of its backends: one needs a module that
not every proxy has (tencentvpc), the other cgo (udp). runc comes from Debian: without libseccomp's
headers it could not be built.
"""

import re
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from tools.harness.controlplane.build import (
    KUBERNETES_VERSION,
    BuildError,
    Program,
    _cached_path,
    _go_json,
    _locked,
    _run_with_progress,
    go_toolchain,
    program_binary,
)
from tools.harness.nodes.cni import PLUGINS_VERSION, host_local, sticky_ipam
from tools.harness.peers.build import local_binary

HERE = Path(__file__).parent
CONTAINERD_VERSION = "v2.3.7"
COREDNS_VERSION = "v1.15.0"
FLANNEL_VERSION = "v0.28.4"
# The plugin `flannel` left the others' module after it.
FLANNEL_CNI_VERSION = "v0.9.1"
_KUBERNETES = "k8s.io/kubernetes"
_CONTAINERD = "github.com/containerd/containerd/v2"
_PLUGINS = "github.com/containernetworking/plugins"
_FLANNEL = "github.com/flannel-io/flannel"
# Of flanneld's main.go.
_LEFT_OUT = re.compile(r'^\s*_ "[^"]*/backend/(tencentvpc|udp)"\n', re.MULTILINE)


@cache
def node_programs() -> dict[str, Path]:
    """By name: what a node has in its PATH. Built first where it is missing. Raises BuildError."""
    return {
        "kubelet": _kubernetes("kubelet"),
        **{
            name: program_binary(
                Program(name, _CONTAINERD, CONTAINERD_VERSION, f"{_CONTAINERD}/cmd/{name}")
            )
            for name in ("containerd", "containerd-shim-runc-v2", "ctr")
        },
    }


@cache
def cni_plugins() -> dict[str, Path]:
    """As `node_programs`, for /opt/cni/bin."""
    return {
        "bridge": _plugin("bridge", "main"),
        "loopback": _plugin("loopback", "main"),
        "portmap": _plugin("portmap", "meta"),
        "flannel": _plugin("flannel", "meta", version=FLANNEL_CNI_VERSION),
        "host-local": host_local(),
        "sticky-ipam": sticky_ipam(),
    }


@cache
def kube_proxy() -> Path:
    """As `node_programs`; so the following."""
    return _kubernetes("kube-proxy")


@cache
def kube_scheduler() -> Path:
    return _kubernetes("kube-scheduler")


@cache
def coredns() -> Path:
    """With the plugins of manifests/overlays/node only."""
    return local_binary("coredns", HERE / "coredns" / "go.mod", version=COREDNS_VERSION)


@cache
def workload() -> Path:
    """What runs in pods, and holds their networks."""
    return local_binary("workload", HERE / "workload" / "go.mod", version="v1")


@cache
def csi_files() -> Path:
    """A CSI driver, whose volumes are directories."""
    return local_binary("csi-files", HERE / "csi" / "go.mod", version="v1")


@cache
def flanneld() -> Path:
    program = Program("flanneld", _FLANNEL, FLANNEL_VERSION, ".")
    target = _cached_path(program)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent / ".lock", waiting_for=program.name):
            if not target.exists():
                _build_flanneld(program, target)
    return target


def _kubernetes(name: str) -> Path:
    return program_binary(
        Program(name, _KUBERNETES, KUBERNETES_VERSION, f"{_KUBERNETES}/cmd/{name}")
    )


def _plugin(name: str, kind: str, *, version: str = PLUGINS_VERSION) -> Path:
    return program_binary(
        Program(f"cni-{name}", _PLUGINS, version, f"{_PLUGINS}/plugins/{kind}/{name}")
    )


def _build_flanneld(program: Program, target: Path) -> None:
    go = go_toolchain()
    with tempfile.TemporaryDirectory(prefix="edge-sidecars-build-") as folder:
        downloaded = _go_json(
            go, Path(folder), "mod", "download", "-json", f"{program.module}@{program.version}"
        )
        source = Path(folder, "flannel")
        shutil.copytree(downloaded["Dir"], source, copy_function=shutil.copyfile)
        for path in (source, *source.rglob("*")):
            # The module cache is read-only.
            path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.rmtree(source / "pkg" / "backend" / "tencentvpc", ignore_errors=True)
        main = source / "main.go"
        text, count = _LEFT_OUT.subn("", main.read_text(encoding="utf-8"))
        if count != 2:
            raise BuildError(f"{program.module} {program.version}: main.go is another one")
        main.write_text(text, encoding="utf-8")
        output = target.with_name(f".{target.name}")
        command = [str(go), "build", "-v", "-trimpath", "-ldflags=-s -w", "-o", str(output), "."]
        _run_with_progress(program, command, go, source)
        output.rename(target)


def versions() -> dict[str, str]:
    """Of what runs on a node."""
    return {
        "kubernetes": KUBERNETES_VERSION,
        "containerd": CONTAINERD_VERSION,
        "coredns": COREDNS_VERSION,
        "flannel": FLANNEL_VERSION,
    }


def main() -> int:
    try:
        found = [*node_programs().values(), *cni_plugins().values()]
        others = (kube_proxy, kube_scheduler, coredns, flanneld, workload, csi_files)
        found += [build() for build in others]
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    print(*found, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
