"""On which API servers a test of the elector runs: names of fixtures, and a mark for both.

A test that needs neither RBAC nor kube-apiserver's own faults says `@ON_BOTH`: what the elector
promises, it promises on the relay's `--origin local` too.
"""

import pytest

KUBE = "control_plane"
ORIGIN = "origin_server"

ON_BOTH = pytest.mark.parametrize("api_server", [KUBE, ORIGIN], indirect=True)
