"""On which API servers a test of the elector runs: names of fixtures, and a mark for both.

A test that needs neither RBAC nor kube-apiserver's own faults says `@ON_BOTH`: what the elector
promises, it promises before the local API server too.
"""

import pytest

KUBE = "control_plane"
LOCAL = "local_apiserver"

ON_BOTH = pytest.mark.parametrize("api_server", [KUBE, LOCAL], indirect=True)
