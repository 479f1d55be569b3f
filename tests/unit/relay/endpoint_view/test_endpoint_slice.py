"""What an overlay makes of an EndpointSlice's bytes, and how its endpoints are read."""

import json

import pytest

from relay_sidecar.endpoint_view.endpoint_slice import Overlay, read_endpoints, rendered
from tests.unit.relay.endpoint_view.slices import conditions, endpoint, endpoint_slice


def test_endpoint_view_without_an_overlay_bytes_are_the_api_servers() -> None:
    raw = endpoint_slice("web-1", [endpoint("n1", "a"), endpoint("n2", "b", ready=False)])
    assert rendered(raw, {}) is raw


@pytest.mark.parametrize(
    ("overlay", "is_ready"), [(Overlay.SILENT, False), (Overlay.KEPT, True)], ids=str
)
def test_endpoint_view_an_overlay_changes_ready_and_serving_of_its_endpoint_alone(
    overlay: Overlay, is_ready: bool
) -> None:
    made = [
        endpoint("n1", "a", ready=not is_ready, serving=not is_ready, terminating=False),
        endpoint("n2", "b", ready=None),
    ]
    raw = endpoint_slice("web-1", made)
    first, _ = read_endpoints(raw)
    shown = json.loads(rendered(raw, {first: overlay}))
    expected = json.loads(raw)
    expected["endpoints"][0]["conditions"] = {
        "ready": is_ready,
        "serving": is_ready,
        "terminating": False,
    }
    assert shown == expected
    # Members stay in their order: nothing but these values differs.
    assert list(shown) == list(expected)


def test_endpoint_view_conditions_that_are_left_out_are_read_as_kubernetes_says() -> None:
    made = [
        endpoint("n1", "no ready", ready=None),
        endpoint("n1", "no serving", ready=False),
        endpoint("n1", "terminating", ready=False, serving=True, terminating=True),
        {"addresses": ["10.0.0.1"]},
        {"addresses": ["10.0.0.2"], "conditions": None, "targetRef": None, "nodeName": None},
    ]
    found = {id[1] or id[2][0]: it for id, it in read_endpoints(endpoint_slice("w", made)).items()}
    told = {
        key: (it.is_ready, it.is_serving, it.is_terminating, it.node) for key, it in found.items()
    }
    assert told == {
        "no ready": (True, True, False, "n1"),
        "no serving": (False, False, False, "n1"),
        "terminating": (False, True, True, "n1"),
        "10.0.0.1": (True, True, False, ""),
        "10.0.0.2": (True, True, False, ""),
    }


def test_endpoint_view_an_endpoint_that_is_there_twice_is_as_its_worse_half() -> None:
    made = [endpoint("n1", "a"), endpoint("n1", "a", ready=False, terminating=True)]
    (found,) = read_endpoints(endpoint_slice("web-1", made)).values()
    assert (found.is_ready, found.is_terminating) == (False, True)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"endpoints":null}', b'{"endpoints":[{}]}'])
def test_endpoint_view_what_is_no_slice_has_no_endpoints(raw: bytes) -> None:
    assert read_endpoints(raw) == {}


def test_endpoint_view_overlays_of_endpoints_without_a_target_are_rendered_too() -> None:
    raw = endpoint_slice("web-1", [endpoint("n1", "", address="10.0.0.9")])
    (id,) = read_endpoints(raw)
    assert conditions(rendered(raw, {id: Overlay.SILENT}))[""]["ready"] is False
