"""One list of upstream, page by page, whole once its last page is there.

Knows no time and no failure but two: pages of different versions, and a continue token that is no
longer valid. Guarantee: a list is whole or not there.
"""

from typing import Final

from edge_sidecars.apimachinery.objects import Item, Malformed, Page
from relay_sidecar.core.stream.commands import ListRequest

# client-go pages by 500; twice that halves the round trips, and a page stays near 3 MB.
PAGE_LIMIT: Final = 1000
# So many objects beyond the first page are listed at once after all: kube-apiserver answers a
# whole list from its cache, several times as fast as pages; 3 KB each, they are 60 MB for a moment.
WHOLE_LIMIT: Final = 20_000


class PagedList:
    def __init__(self) -> None:
        self._first: Page | None = None
        self._items: list[Item] = []
        self._unreadable = 0
        self._token = ""
        self._limit = PAGE_LIMIT

    def request(self) -> ListRequest:
        """The next page."""
        return ListRequest(self._token, self._limit)

    def take(self, page: Page) -> Page | None:
        """The whole list, with its last page. Raises `Malformed` for a page of another list."""
        first = self._first or page
        if page.version != first.version:
            self.clear()
            raise Malformed(f"pages of one list at versions {first.version} and {page.version}")
        if page.continue_token and self._first is None and _is_short(page):
            self._limit = 0
            return None
        if page.continue_token:
            self._first = first
            self._items.extend(page.items)
            self._unreadable += page.unreadable
            self._token = page.continue_token
            return None
        items = [*self._items, *page.items] if self._items else page.items
        unreadable = self._unreadable + page.unreadable
        self.clear()
        return Page(page.kind, page.api_version, page.version, "", items, unreadable=unreadable)

    def expire(self) -> bool:
        """The token is no longer valid. Whether there was one: a list that takes longer than etcd
        keeps its version is then requested as a whole, as client-go's pager does
        (k8s.io/client-go/tools/pager, FullListIfExpired)."""
        is_paged = bool(self._token)
        self.clear()
        if is_paged:
            self._limit = 0
        return is_paged

    def clear(self) -> None:
        self._first = None
        self._items = []
        self._unreadable = 0
        self._token = ""
        self._limit = PAGE_LIMIT


def _is_short(first: Page) -> bool:
    return first.remaining is not None and first.remaining <= WHOLE_LIMIT
