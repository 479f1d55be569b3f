"""The built-in types that the server ships are those of the kube-apiserver that the tests run."""

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas.builtin_schemas import FILE, builtin_schemas, encoded


def test_the_built_in_types_are_kube_apiservers(control_plane: ControlPlane) -> None:
    # Else: python -m tools.harness.controlplane.schemas.builtin_schemas
    assert FILE.read_text(encoding="utf-8") == encoded(builtin_schemas(control_plane.admin))
