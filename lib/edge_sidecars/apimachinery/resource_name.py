"""The name of a resource: group, version and plural; where its API is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class ResourceName:
    """A resource of a group version; `group` is "" for the core group."""

    group: str
    version: str
    plural: str

    @property
    def api_path(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """`deployments.v1.apps`, the form that kubectl takes."""
        return f"{self.plural}.{self.version}.{self.group}"


NO_RESOURCE = ResourceName("", "", "")
