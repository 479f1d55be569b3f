"""What nodes under test stand on: Debian with systemd; the relay as a host has it; and the images
of their pods, which no registry brings.
"""

import io
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns

import docker

from tests.unit.manifests import node_addons
from tools.harness.controlplane.build import binary
from tools.harness.nodes import programs
from tools.images import OWN_IMAGES
from tools.images.__main__ import build_all, release
from tools.images.base import ROOT, SUITE, debian_image
from tools.images.wheels import platform_of, provide

NODE_PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "iproute2", "iptables", "runc", "python3"),
    *("ca-certificates", "procps", "curl", "kmod", "libstdc++6"),
)
# Of pods that write rules: no shell.
IPTABLES_PACKAGES = ("iptables", "coreutils")
# Packages are unpacked, not configured: Debian's alternatives are links that nobody makes.
_IPTABLES = [
    f"{it}{what}" for it in ("iptables", "ip6tables") for what in ("", "-save", "-restore")
]
RELAY_FOLDER = "/opt/relay-sidecar"
LOCK = ROOT / "tools" / "requirements" / "node.txt"
PAUSE, WORKLOAD, CSI = "lab.example/pause:1", "lab.example/workload:1", "lab.example/csi-files:1"
_OF_POOLS = ("relay", "elector", "pool")
# As the engine lists it; to a node it is docker.io/coredns/coredns.
COREDNS, KUBECTL = "coredns/coredns:1.15.0", "lab.example/kubectl:1"
_LAUNCHER = f"""#!/usr/bin/python3 -IB
import sys
sys.path[:0] = ["{RELAY_FOLDER}/packages"]
from relay_sidecar.__main__ import main
main()
"""


def node_image(client: docker.DockerClient) -> str:
    """Its name, made first where it is missing. Raises NoBase."""
    return debian_image(client, f"{OWN_IMAGES}/node:{SUITE}", packages=NODE_PACKAGES)


def relay_folder(client: docker.DockerClient, folder: Path, *, image: str) -> Path:
    """What stands at RELAY_FOLDER of a node: locked packages (the extra `node`) for the image's
    Python, this checkout's code, and the program. Raises NoWheels."""
    wheels, packages = folder / "wheels", folder / "relay" / "packages"
    provide([LOCK], platform_of(client, image), wheels)
    for wheel in sorted(wheels.glob("*.whl")):
        if not wheel.name.startswith("pip-"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(packages)
    relay = ROOT / "relay-sidecar"
    for source in (ROOT / "lib/edge_sidecars", relay / "relay_sidecar", relay / "relay_node"):
        copytree(source, packages / source.name, ignore=ignore_patterns("__pycache__"))
    program = folder / "relay" / "relay-sidecar"
    program.write_text(_LAUNCHER, encoding="ascii")
    program.chmod(0o755)
    # As pip does, with the Python that runs it.
    client.containers.run(
        image,
        ["python3", "-m", "compileall", "-q", f"{RELAY_FOLDER}/packages"],
        volumes=[f"{folder / 'relay'}:{RELAY_FOLDER}"],
        network_mode="none",
        remove=True,
    )
    return folder / "relay"


def pod_images(client: docker.DockerClient, folder: Path) -> list[Path]:
    """Archives that `ctr images import` reads."""
    iptables = debian_image(
        client,
        f"{OWN_IMAGES}/iptables:{SUITE}",
        packages=IPTABLES_PACKAGES,
        variant="extract",
    )
    workload = programs.workload()
    flannel = [(programs.flanneld(), "opt/bin/flanneld")]
    flannel += [(programs.cni_plugins()["flannel"], "flannel")]
    made = [
        _build(client, PAUSE, "scratch", [(workload, "workload")], ["/workload", "pause"]),
        _build(client, WORKLOAD, "scratch", [(workload, "workload")], ["/workload", "web"]),
        _build(client, CSI, "scratch", [(programs.csi_files(), "csi-files")], ["/csi-files"]),
        _build(client, COREDNS, "scratch", [(programs.coredns(), "coredns")], ["/coredns"]),
        _build(
            client,
            node_addons.KUBE_PROXY_IMAGE,
            iptables,
            [(programs.kube_proxy(), "usr/local/bin/kube-proxy")],
            ["/usr/local/bin/kube-proxy"],
        ),
        _build(client, node_addons.FLANNEL_IMAGE, iptables, flannel, ["/opt/bin/flanneld"]),
    ]
    return [
        _saved(client, name, folder / f"image-{number}.tar") for number, name in enumerate(made)
    ]


def kubectl_image(client: docker.DockerClient, folder: Path) -> Path:
    """As `pod_images`, of a container that does nothing and has kubectl."""
    files = [(programs.workload(), "workload"), (binary("kubectl"), "kubectl")]
    name = _build(client, KUBECTL, "scratch", files, ["/workload", "pause"])
    return _saved(client, name, folder / "kubectl.tar")


def relay_image(client: docker.DockerClient, folder: Path) -> Path:
    """As `pod_images`, of this checkout, under the name that manifests have."""
    name = build_all(client, tag=release(), components=["relay"])["relay"]
    return _saved(client, name, folder / "relay.tar")


def pool_images(client: docker.DockerClient, folder: Path) -> list[Path]:
    """As `relay_image`, of all that manifests/overlays/pool names."""
    made = build_all(client, tag=release(), components=_OF_POOLS)
    return [_saved(client, made[it], folder / f"{it}.tar") for it in _OF_POOLS]


def _saved(client: docker.DockerClient, name: str, archive: Path) -> Path:
    # As the engine names it; containerd reads it as of docker.io again.
    named = name.removeprefix("docker.io/")
    with archive.open("wb") as file:
        file.writelines(client.images.get(name).save(named=named))
    return archive


def _build(
    client: docker.DockerClient,
    name: str,
    base: str,
    files: Sequence[tuple[Path, str]],
    entrypoint: Sequence[str],
) -> str:
    """`files`: what is copied, and to where."""
    words = ", ".join(f'"{word}"' for word in entrypoint)
    copies = [f"COPY {to} /{to}" for _, to in files]
    lines = [f"FROM {base}", *copies, "ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    if base != "scratch":
        lines.append("COPY links /usr/local/bin")
    lines.append(f"ENTRYPOINT [{words}]")
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        dockerfile = "\n".join(lines).encode()
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        archive.addfile(entry, io.BytesIO(dockerfile))
        for path, to in files:
            archive.add(path, to, filter=_undated)
        for each in _IPTABLES:
            link = tarfile.TarInfo(f"links/{each}")
            link.type, link.linkname = tarfile.SYMTYPE, "/usr/sbin/xtables-nft-multi"
            archive.addfile(link)
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True)
    return name


def _undated(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """So that the engine finds the layer that it made before."""
    entry.mtime, entry.uid, entry.gid, entry.mode = 0, 0, 0, 0o755
    return entry
