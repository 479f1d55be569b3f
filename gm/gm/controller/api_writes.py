"""The writes of this GM.

Owns rule G1's check. Guarantee: nothing is sent that may end after the object on whose behalf it is
has become another GM's, as far as a clock can tell.
"""

import json
from collections.abc import Callable

import msgspec

from edge_sidecars.controllers.guarded_writes import GuardedWrites
from edge_sidecars.kubeapi import ApiClient
from edge_sidecars.sedna_api.core.api_object import Json

FIELD_MANAGER = "sedna-gm"
# What the API server says when it is not the object's fault.
TROUBLE = frozenset({408, 429, 500, 502, 503, 504})


def api_writes(
    api: ApiClient, may_write: Callable[[str], bool], *, timeout: float
) -> GuardedWrites:
    """`may_write`: whether this GM may write on behalf of the object with this uid."""
    return GuardedWrites(
        api, may_write, field_manager=FIELD_MANAGER, timeout=timeout, encode=_encoded
    )


def _encoded(body: Json) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        # Half a surrogate pair, from JSON within JSON: escaped, it is for the API server to judge.
        return json.dumps(body, separators=(",", ":")).encode()
