"""What LC reads of a Dataset."""

import msgspec

from edge_sidecars.sedna_api.core.api_object import Document


class DatasetSpec(msgspec.Struct, rename="camel", gc=False):
    url: str = ""
    format: str = ""
    credential_name: str = ""


class DatasetStatus(msgspec.Struct, rename="camel", frozen=True, gc=False):
    number_of_samples: int | None = None


class ParsedDataset(msgspec.Struct, gc=False):
    spec: DatasetSpec
    status: DatasetStatus = DatasetStatus()


_DATASET = msgspec.json.Decoder(ParsedDataset)


def parse_dataset(document: Document) -> ParsedDataset:
    """Empty where an object is none that the API would have taken: then its format is wrong."""
    try:
        return _DATASET.decode(document.raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ParsedDataset(DatasetSpec())
