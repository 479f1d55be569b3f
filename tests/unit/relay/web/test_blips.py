"""Which requests the relay may answer once more after a blip of the link."""

import pytest
from multidict import CIMultiDict

from edge_sidecars.apimachinery.status import Refused, unavailable
from edge_sidecars.kubeapi import NotSent, Unreachable
from relay_sidecar.web.api import may_be_repeated

PLAIN: CIMultiDict[str] = CIMultiDict()
UPGRADE = CIMultiDict({"Connection": "Upgrade", "Upgrade": "websocket"})
REFUSED = Refused(unavailable("not known here"))


@pytest.mark.parametrize("error", [REFUSED, NotSent("refused"), Unreachable("reset")])
def test_a_plain_read_may_be_repeated_and_no_write_may(error: Refused | Unreachable) -> None:
    assert may_be_repeated("GET", PLAIN, error)
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert not may_be_repeated(method, PLAIN, error)


def test_an_upgrade_that_may_have_run_a_command_is_not_repeated() -> None:
    assert not may_be_repeated("GET", UPGRADE, Unreachable("reset"))
    assert may_be_repeated("GET", UPGRADE, NotSent("refused"))
    assert may_be_repeated("GET", UPGRADE, REFUSED)
