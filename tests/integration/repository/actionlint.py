"""actionlint, which judges GitHub's workflow files; built from its Go module, once for all
checkouts."""

from pathlib import Path

from tools.harness.controlplane.build import Program, program_binary

_MODULE = "github.com/rhysd/actionlint"
ACTIONLINT = Program("actionlint", _MODULE, "v1.7.7", f"{_MODULE}/cmd/actionlint")


def actionlint_binary() -> Path:
    """Its path. Raises BuildError."""
    return program_binary(ACTIONLINT)
