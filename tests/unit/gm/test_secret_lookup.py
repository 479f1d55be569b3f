"""What GM asks of Secrets."""

import asyncio
from typing import Any, cast

from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.sedna_api.core.api_object import ObjectKey
from gm.controller.secret_lookup import SecretLookup
from tests.unit.gm.documents import document

SECRET = ObjectKey("secret", "shop", "keys")


class _Api:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str | None]] = []

    async def fetch(self, method: str, path: str, **how: Any) -> bytes:
        self.asked.append((method, path, how.get("accept")))
        return b'{"metadata":{"name":"keys","annotations":{"a":"b"}}}'


def test_of_a_secret_gm_asks_for_its_metadata_alone() -> None:
    api = _Api()

    async def scene() -> None:
        lookup = SecretLookup(
            cast(ApiClient, api), timeout=1.0, is_named=lambda _: True, changed=lambda _: None
        )
        assert await lookup.get(SECRET, document("model", "m")) is not None

    asyncio.run(scene())
    [(method, path, accept)] = api.asked
    assert (method, path) == ("GET", "/api/v1/namespaces/shop/secrets/keys")
    assert accept == "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
