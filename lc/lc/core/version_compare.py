"""What an object that arrives is to what is held under its name.

Versions are not compared here: whoever receives objects knows whether a lower one is late (G4) or
the API's history began anew.
"""

from enum import Enum

from edge_sidecars.sedna_api.core.api_object import Document


class Change(Enum):
    NEW = "new"
    UPDATED = "updated"
    REPLACED = "replaced"  # another uid: the one that was there is gone
    SAME = "same"


def judge(held: Document | None, arrived: Document) -> Change:
    if held is None:
        return Change.NEW
    if held.uid != arrived.uid:
        return Change.REPLACED
    return Change.SAME if held == arrived else Change.UPDATED
