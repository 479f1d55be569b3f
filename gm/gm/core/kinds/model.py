"""Model: jobs refer to it, and a federated job writes its metrics."""

from gm.core.kind import Kind, Rule
from sedna_api.core import kinds

MODEL = Kind(resource=kinds.MODEL, rule=Rule.RECORD)
