"""Lists that clients read page by page, put together again."""

from edge_sidecars.apimachinery.objects import Page
from edge_sidecars.apimachinery.request.request_info import Form
from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from relay_sidecar.web.reads.upstream_lists import PageSets
from tests.unit.relay.streams.samples import item

PODS = ListScope(ResourceName("", "v1", "pods"))


def page(name: str, *, token: str = "") -> Page:
    return Page("PodList", "v1", 10, token, [item(name, 5)])


def test_pages_of_one_list_are_put_together() -> None:
    sets = PageSets()
    assert sets.joined(PODS, Form.WHOLE, "", page("a", token="1")) is None
    whole = sets.joined(PODS, Form.WHOLE, "1", page("b"))

    assert whole is not None
    assert [each.key[1] for each in whole.items] == ["a", "b"]


def test_pages_of_different_forms_are_never_put_together() -> None:
    """Two clients at one version have equal tokens."""
    sets = PageSets()
    sets.joined(PODS, Form.WHOLE, "", page("whole", token="1"))
    sets.joined(PODS, Form.METADATA, "", page("metadata", token="1"))
    whole = sets.joined(PODS, Form.WHOLE, "1", page("rest"))

    assert whole is not None
    assert [each.key[1] for each in whole.items] == ["whole", "rest"]
    assert sets.joined(PODS, Form.TABLE, "1", page("rest")) is None
