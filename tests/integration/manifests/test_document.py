"""docs/how-to/manifests.md: what it says to type works, word for word, and says what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.manifests.typist import TIMEOUT, Typist
from tests.unit.manifests.built import workload
from tests.unit.repository.checkout import ROOT, block
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane

DOCUMENT = "docs/how-to/manifests.md"
MODES = "docs/how-to/deploy-gm-and-lc.md"


def _typist(plane: ControlPlane, folder: Path) -> Typist:
    """Beside a Deployment that knows nothing of us."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "shop"}}
    body = [account, workload(serviceAccountName="shop")]
    (folder / "deployment.yaml").write_text(yaml.safe_dump_all(body), encoding="utf-8")
    return Typist(plane, folder)


def _type(plane: ControlPlane, folder: Path, title: str) -> str:
    """What the commands under a heading print."""
    return _typist(plane, folder).type(block(DOCUMENT, title, "sh"))


@pytest.mark.parametrize(
    "title", ["Add the elector in five minutes", "Add the relay in five minutes"]
)
def test_a_sidecar_is_added_as_it_says(own_plane: ControlPlane, tmp_path: Path, title: str) -> None:
    told = _type(own_plane, tmp_path, title)
    assert "deployment.apps/shop serverside-applied" in told
    path = "/apis/apps/v1/namespaces/default/deployments/shop"
    found = expect(own_plane.admin.get(path))
    name = title.split()[2]
    sidecars = {it["name"]: it for it in found["spec"]["template"]["spec"]["initContainers"]}
    variables = sidecars[name]["env"]
    assert {it["name"] for it in variables} & {"ELECTOR_HEALTH_URL", "RELAY_PRELOAD"}
    for number, variable in enumerate(variables):
        # kubelet puts in only what stands before it.
        known = {it["name"] for it in variables[:number]}
        assert known >= set(re.findall(r"\$\((\w+)\)", variable.get("value", "")))
    expect(own_plane.admin.delete(path))


def test_all_replicas_work_as_it_says(own_plane: ControlPlane, tmp_path: Path) -> None:
    typist = _typist(own_plane, tmp_path)
    told = typist.type(block(DOCUMENT, "Let all replicas work", "sh"))
    for name in ("deployment.apps/shop", "rolebinding.rbac.authorization.k8s.io/shop-elector"):
        assert f"{name} serverside-applied" in told
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    (name,) = re.findall(r"named `(elections[a-z.-]+)`", (ROOT / DOCUMENT).read_text("utf-8"))
    policy = expect(own_plane.admin.get(f"{policies}/{name}"))
    assert policy["spec"]["paramKind"]["kind"] == "RoleBinding"
    typist.type("kubectl delete -k .\nkubectl delete -k edge-sidecars/manifests/election-policy")


def test_a_mode_is_applied_as_it_says(own_plane: ControlPlane, tmp_path: Path) -> None:
    told = _typist(own_plane, tmp_path).type(block(MODES, "Choosing an HA mode", "sh"))
    assert "configmap/ha-mode serverside-applied" in told
    own_plane.admin.get("/apis/apps/v1/namespaces/sedna/deployments/gm")
    lease = "/apis/coordination.k8s.io/v1/namespaces/sedna/leases/gm"
    assert "holderIdentity" not in expect(own_plane.admin.get(lease)).get("spec", {})


@pytest.mark.parametrize(
    ("program", "given", "missing"),
    [
        ("elector-sidecar", {"ELECTOR_LEASE": "a"}, "--namespace is missing"),
        ("lc", {"LC_MODE": "stream"}, "--gm-address is missing"),
    ],
)
def test_a_program_that_lacks_something_names_it(
    program: str, given: dict[str, str], missing: str
) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / program)],
        env={"PATH": "/usr/bin:/bin", "KUBERNETES_SERVICE_HOST": "198.51.100.1", **given},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 2
    assert missing in done.stderr


def test_every_folder_that_it_names_exists() -> None:
    text = "\n".join((ROOT / it).read_text(encoding="utf-8") for it in (DOCUMENT, MODES))
    folders = set(re.findall(r"manifests/([a-z/-]+[a-z])", text))
    folders |= {f"overlays/{it}" for it in re.findall(r"`overlays/([a-z-]+)`", text)}
    assert len(folders) > 8
    for folder in folders:
        assert (ROOT / "manifests" / folder).is_dir(), folder
