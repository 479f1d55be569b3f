"""`make release`: every overlay as one file of YAML and as a Helm chart, for use without kustomize;
the wheel and the sdist; an archive and an SBOM of each image; for nodes an archive of the relay for
each Python; SHA256SUMS of all of these.

Writes dist/edge-sidecars-VERSION/NAME.yaml, …/charts/NAME, …/images/NAME-VERSION-ARCHITECTURE with
the suffixes .tar and .cdx.json, and …/nodes/ with what `make release-node` makes. For one commit
all but the manifests has the same bytes on each machine and day. Manifests are rendered by the
kubectl or kustomize in PATH where one fits, else by a kustomize that is built (not kubectl, which
takes minutes). Exit status: 0, or 2 for bad input (one line).
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.process import exit_on_bad_input
from edge_sidecars.runtime.version import VERSION
from tools.harness.controlplane.build import Program, in_path, program_binary
from tools.harness.controlplane.clients.kustomization import NotBuilt
from tools.images import OWN_IMAGES
from tools.images.__main__ import revision
from tools.release.chart import chart
from tools.release.images.assembly import Release, write_archives
from tools.release.images.debian import MACHINES
from tools.release.node.bundle import PYTHONS, Target, write_bundle
from tools.release.rendered import chart_source, folders, rendered, with_registry

ROOT = Path(__file__).parents[2]
SUMS = "SHA256SUMS"
# The manifests are written for kustomize 5, which kubectl has since 1.27.
KUSTOMIZE_5, KUBECTL_1_27 = (5, 0), (1, 27)
_MODULE = "sigs.k8s.io/kustomize/kustomize/v5"
# That of the kubectl in tools/harness/controlplane/build.py.
KUSTOMIZE = Program("kustomize", _MODULE, "v5.8.1", _MODULE)
# A reference without its last part (distribution/reference, regexp.go).
REGISTRY = re.compile(r"[a-z0-9][a-z0-9.-]*(:\d+)?(/[a-z0-9][a-z0-9._-]*)*/?")


def main() -> int:
    it = Parser(prog="make release", description=(__doc__ or "").splitlines()[0])
    it.add_argument(
        "--registry",
        metavar="HOST/PATH",
        default=OWN_IMAGES,
        help="where the images are pulled from; default: %(default)s, which no host serves",
    )
    it.add_argument(
        "--architecture",
        choices=sorted(MACHINES),
        action="append",
        help="of the images and the nodes; repeat for several; default: all",
    )
    it.add_argument("--no-images", action="store_true", help="without archives of images and SBOMs")
    it.add_argument("--no-nodes", action="store_true", help="without the archives for nodes")
    it.add_argument(
        "--mirror",
        metavar="URL",
        default="",
        help="where Debian's packages come from; default: as this machine's own",
    )
    with exit_on_bad_input("make release"):
        given = it.parse_args()
        registry = given.registry
        if not REGISTRY.fullmatch(registry):
            raise BadInput(
                f"--registry {registry!r:.80} is no registry with a path: write it like "
                "registry.example.com/edge"
            )
        target = ROOT / "dist" / f"edge-sidecars-{VERSION}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for path in write_manifests(target, registry=registry):
            print(path.relative_to(ROOT))
        build = ["-m", "hatchling", "build", "-d", str(target)]
        subprocess.run([sys.executable, *build], cwd=ROOT, check=True)
        architectures = given.architecture or sorted(MACHINES)
        if not given.no_nodes:
            for path in write_bundles(target, architectures=architectures):
                print(path.relative_to(ROOT), flush=True)
        if not given.no_images:
            release = Release(VERSION, revision(ROOT), created(ROOT), registry, given.mirror)
            images = target / "images"
            for path in write_archives(release, ROOT, images, architectures=architectures):
                print(path.relative_to(ROOT), flush=True)
        (target / SUMS).write_text(sums(target), encoding="utf-8")
    return 0


def write_bundles(target: Path, *, architectures: Sequence[str]) -> Iterator[Path]:
    """The relay for nodes of each architecture and Python, with the wheel in `target`. Raises
    `BadInput`."""
    (wheel,) = target.glob("*.whl")
    for architecture in architectures:
        for python in PYTHONS:
            nodes = Target(python, MACHINES[architecture])
            yield write_bundle(nodes, ROOT, target / "nodes", own=wheel)


def created(checkout: Path) -> int:
    """When the release was made, in Unix time: $SOURCE_DATE_EPOCH (reproducible-builds.org), or the
    time of the commit. Raises `BadInput`."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        if not given.isdecimal():
            raise BadInput(f"SOURCE_DATE_EPOCH={given!r:.40} is no Unix time in seconds")
        return int(given)
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%ct"]
    try:
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BadInput("no commit here to take the time of: set SOURCE_DATE_EPOCH") from error


def sums(folder: Path) -> str:
    """Of all files in the folder, in the form of sha256sum."""
    files = sorted(it for it in folder.rglob("*") if it.is_file() and it.name != SUMS)
    return "".join(
        f"{hashlib.sha256(it.read_bytes()).hexdigest()}  {it.relative_to(folder)}\n" for it in files
    )


def write_manifests(target: Path, *, registry: str) -> Iterator[Path]:
    """Every folder of manifests/, as `write`. Raises `BadInput`."""
    kubectl = str(
        in_path("kubectl", since=KUBECTL_1_27)
        or in_path("kustomize", since=KUSTOMIZE_5)
        or program_binary(KUSTOMIZE)
    )
    for name, folder in folders(ROOT / "manifests"):
        try:
            yield from write(name, folder, target, registry=registry, kubectl=kubectl)
        except NotBuilt as error:
            raise BadInput(f"{folder} cannot be rendered: {error}") from error


def write(name: str, folder: Path, target: Path, *, registry: str, kubectl: str) -> Iterator[Path]:
    """One folder of manifests/ into `target`; gives what was written, a chart as its folder.
    Raises `NotBuilt`."""
    text = rendered(folder, kubectl=kubectl)
    path = target / f"{name}.yaml"
    path.write_text(with_registry(text, registry), encoding="utf-8")
    yield path
    source = chart_source(name, folder, text, registry=registry, kubectl=kubectl)
    if source is not None:
        home = target / "charts" / name
        for file, content in chart(source).items():
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_text(content, encoding="utf-8")
        yield home


if __name__ == "__main__":
    sys.exit(main())
