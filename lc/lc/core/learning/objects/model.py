"""Models as jobs, workers and GM speak of them, and which one is for which place.

Owns the choice by format and device: a training may leave several models (a checkpoint to go on
from, one compiled for the edge's chip), and each place takes the one made for it. Nothing that was
trained fits: there is no model, and whoever asked says so; Sedna's LC ends there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lc.core.learning.objects.fields import MalformedJob, list_at, mapping_at, text_at


@dataclass(frozen=True, slots=True)
class Model:
    """`devices`: systems on chip it was made for, empty: any. `told`: all that a worker said.

    `credential`: the Secret that opens it, of a Model in the API.
    """

    format: str
    url: str
    devices: tuple[str, ...] = ()
    credential: str = ""
    told: Mapping[str, object] = field(default_factory=dict, compare=False)

    @classmethod
    def parse(cls, found: object) -> "Model":
        """Raises MalformedJob."""
        if not isinstance(found, Mapping):
            raise MalformedJob("a model is no object")
        url = text_at(found, "url")
        if not url:
            raise MalformedJob("a model has no url")
        devices = tuple(str(each) for each in list_at(found, "device_soc_versions"))
        credential = text_at(found, "credentialName")
        return cls(text_at(found, "format"), url, devices, credential, dict(found))

    @classmethod
    def of_resource(cls, found: Mapping[str, object]) -> "Model":
        """A Model in the API. Raises MalformedJob."""
        return cls.parse(mapping_at(found, "spec") or {})

    def fits(self, place: "Model") -> bool:
        """A model for several devices, or for none in particular, is judged by its format alone."""
        if self.format != place.format:
            return False
        if place.devices and len(self.devices) == 1:
            return self.devices[0] in place.devices
        return True

    def as_input(self) -> dict[str, object]:
        """As GM reads it: where it is and what it is."""
        body: dict[str, object] = {"format": self.format, "url": self.url}
        if self.devices:
            body["device_soc_versions"] = list(self.devices)
        return body


def fitting(models: Iterable[Model], place: Model) -> Model | None:
    return next((each for each in models if each.fits(place)), None)


def models_in(results: Iterable[object]) -> tuple[Model, ...]:
    """Those that have an address; the others cannot be used for anything."""
    return tuple(
        Model.parse(each) for each in results if isinstance(each, Mapping) and each.get("url")
    )
