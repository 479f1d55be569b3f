"""Lists that clients read page by page, put together again: whole, they can begin a stream.

All pages of a set have the first one's version; a set that is not finished is forgotten.
"""

from collections import OrderedDict

from edge_sidecars.apimachinery.objects import Item, Page
from edge_sidecars.apimachinery.request_info import Form
from edge_sidecars.apimachinery.scope import ListScope

# Sets and bytes that may be under way at once; beyond, the oldest is given up: its stream then
# begins with a list of its own.
MAX_SETS = 8
MAX_BYTES = 32 * 1024 * 1024


class PageSets:
    def __init__(self) -> None:
        self._open: OrderedDict[tuple[ListScope, Form, str], list[Item]] = OrderedDict()

    def joined(self, scope: ListScope, form: Form, token: str, page: Page) -> Page | None:
        """The whole list once `page`, asked for with continue `token`, completes it.

        A token is a version and a key (k8s.io/apiserver, pkg/storage/continue.go): clients that
        want the objects in different forms may well hold equal ones.
        """
        items = page.items
        if token:
            before = self._open.pop((scope, form, token), None)
            if before is None:
                return None
            items = before + items
        if not page.continue_token:
            return Page(page.kind, page.api_version, page.version, "", items)
        self._open[scope, form, page.continue_token] = items
        while len(self._open) > MAX_SETS or self._size() > MAX_BYTES:
            self._open.popitem(last=False)
        return None

    def _size(self) -> int:
        return sum(len(item.raw) for items in self._open.values() for item in items)
