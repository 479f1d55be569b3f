"""Fixtures for all tests; each is described where it is defined."""

from tests.controlplane.fixtures import control_plane, fault_proxy, namespace

__all__ = ["control_plane", "fault_proxy", "namespace"]
