"""The port through which the cache notifies of what concerns a node."""

from typing import Protocol

from edge_sidecars.sedna_api.core.api_object import Document


class NodeListener(Protocol):
    """Who hears of changes; the hub is one."""

    def concerns(self, node: str, document: Document) -> None:
        """The object concerns the node from now on, or has changed; a Model before its job."""

    def leaves(self, node: str, document: Document) -> None:
        """The object is deleted, or concerns the node no longer; `document` is its last state,
        with the resourceVersion of the deletion where that is the reason."""

    def moved(self) -> None:
        """A collection has a higher version, `is_synced` or `is_link_up` changed. May be told
        once for many changes, and after the changes themselves."""
