"""What documents say of what GM and LC share is true."""

import ast
import re

from tests.unit.repository.checkout import DOCUMENTS, ROOT, document


def test_one_kubernetes_version_is_named_for_the_policy_of_node_reports() -> None:
    policy = (ROOT / "manifests/nodereport-policy/policy.yaml").read_text(encoding="utf-8")
    lines = [it for name in DOCUMENTS for it in document(name).splitlines()]
    about = [policy, *(it for it in lines if "nodereport-policy" in it and it.startswith("|"))]
    named = [re.findall(r"Kubernetes (1\.\d+)", it) for it in about]
    assert sum(map(len, named)) >= 3
    assert {version for versions in named for version in versions} == {"1.31"}


def test_the_shared_core_names_each_of_its_modules() -> None:
    core = ROOT / "lib" / "edge_sidecars" / "sedna_api" / "core"
    source = (core / "__init__.py").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", ast.get_docstring(ast.parse(source)) or ""))

    assert {path.stem for path in core.glob("*.py")} - {"__init__"} <= words
