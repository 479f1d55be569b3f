"""`make release`: every overlay as one file of YAML and as a Helm chart, for use without kustomize;
the wheel and the sdist; SHA256SUMS of all of these.

Writes dist/edge-sidecars-VERSION/NAME.yaml and …/charts/NAME, by the kubectl or kustomize in PATH
where one fits, else by a kustomize that is built (not kubectl, which takes minutes). Exit status:
0, or 2 for bad input (one line).
"""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.process import exit_on_bad_input
from edge_sidecars.runtime.version import VERSION
from tools.harness.controlplane.build import Program, in_path, program_binary
from tools.harness.controlplane.clients.kustomization import NotBuilt
from tools.images import OWN_IMAGES
from tools.release.chart import chart
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
    with exit_on_bad_input("make release"):
        registry = it.parse_args().registry
        if not REGISTRY.fullmatch(registry):
            raise BadInput(
                f"--registry {registry!r:.80} is no registry with a path: write it like "
                "registry.example.com/edge"
            )
        target = ROOT / "dist" / f"edge-sidecars-{VERSION}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        kubectl = str(
            in_path("kubectl", since=KUBECTL_1_27)
            or in_path("kustomize", since=KUSTOMIZE_5)
            or program_binary(KUSTOMIZE)
        )
        for name, folder in folders(ROOT / "manifests"):
            try:
                for path in write(name, folder, target, registry=registry, kubectl=kubectl):
                    print(path.relative_to(ROOT))
            except NotBuilt as error:
                raise BadInput(f"{folder} cannot be rendered: {error}") from error
        build = ["-m", "hatchling", "build", "-d", str(target)]
        subprocess.run([sys.executable, *build], cwd=ROOT, check=True)
        (target / SUMS).write_text(sums(target), encoding="utf-8")
    return 0


def sums(folder: Path) -> str:
    """Of all files in the folder, in the form of sha256sum."""
    files = sorted(it for it in folder.rglob("*") if it.is_file() and it.name != SUMS)
    return "".join(
        f"{hashlib.sha256(it.read_bytes()).hexdigest()}  {it.relative_to(folder)}\n" for it in files
    )


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
