"""The rights in manifests/rbac are those that the real processes need: all of them, and no more."""

from collections.abc import Sequence
from http import HTTPStatus

import pytest

from tests.controlplane import sedna_kinds
from tests.controlplane.audit import AuditEvent
from tests.controlplane.cluster import ControlPlane
from tests.integration.manifests.confined import unused
from tests.integration.manifests.site import CLOUD, EDGE, OTHER, Site, rules

MODES = {"active-standby": "active-standby-service", "relay": "relay"}


@pytest.fixture(scope="module")
def worked(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Site]:
    """By mode; all has been done that GM and LC do."""
    sedna_kinds.install(control_plane)
    for node in (EDGE, OTHER, CLOUD):
        control_plane.admin.post("/api/v1/nodes", {"metadata": {"name": node}})
    sites = {}
    for mode, overlay_name in MODES.items():
        folder = tmp_path_factory.mktemp("rights")
        with Site(control_plane, folder, mode=mode, overlay_name=overlay_name) as site:
            site.work()
            sites[mode] = site
    return sites


def _events(plane: ControlPlane, *users: str) -> Sequence[AuditEvent]:
    return [event for user in users for event in plane.audit(stage=None, user=user)]


def _refused(events: Sequence[AuditEvent]) -> set[str]:
    denied = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    return {f"{it.verb} {it.request_uri}" for it in events if it.status in denied}


@pytest.mark.slow
def test_nothing_that_gm_and_lc_ask_for_is_refused(
    control_plane: ControlPlane, worked: dict[str, Site]
) -> None:
    for site in worked.values():
        assert _refused(_events(control_plane, site.gm_user, site.lc_user)) == set()


@pytest.mark.slow
def test_each_rule_of_gm_is_used(control_plane: ControlPlane, worked: dict[str, Site]) -> None:
    events = _events(control_plane, *(site.gm_user for site in worked.values()))
    assert unused(rules("relay", "ClusterRole", "sedna-gm"), events) == []
    assert unused(rules("relay", "Role", "gm-elector"), events) == []


@pytest.mark.slow
def test_each_rule_of_lc_is_used_in_mode_relay_and_none_in_others(
    control_plane: ControlPlane, worked: dict[str, Site]
) -> None:
    events = _events(control_plane, worked["relay"].lc_user)
    assert unused(rules("relay", "ClusterRole", "sedna-lc"), events) == []
    assert _events(control_plane, worked["active-standby"].lc_user) == []
