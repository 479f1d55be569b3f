"""The Dataset of a job: where it lies, and in which form (prior art: csv has a header line)."""

from collections.abc import Mapping
from dataclasses import dataclass

from lc.core.learning.commands import FileLocation
from lc.core.learning.objects.fields import MalformedJob, text_at

_FORMATS = ("txt", "csv")


@dataclass(frozen=True, slots=True)
class Dataset:
    """`format` txt|csv; `node`: whose it is."""

    url: str
    format: str
    node: str
    credential: str = ""

    @classmethod
    def parse(cls, found: Mapping[str, object]) -> "Dataset":
        """Raises MalformedJob."""
        url, data_format = text_at(found, "spec", "url"), text_at(found, "spec", "format").lower()
        if not url:
            raise MalformedJob("spec.url is empty")
        if data_format not in _FORMATS:
            raise MalformedJob(f"spec.format is {data_format!r}, none of {', '.join(_FORMATS)}")
        node = text_at(found, "spec", "nodeName")
        return cls(url, data_format, node, text_at(found, "spec", "credentialName"))

    @property
    def place(self) -> FileLocation:
        return FileLocation(self.url, self.credential)
