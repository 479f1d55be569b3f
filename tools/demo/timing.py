"""Durations of the demo's election, as they stand on the sidecar's command line."""

from dataclasses import dataclass

from edge_sidecars.runtime.cli.values import seconds
from elector_sidecar.core.timing import Timing as CheckedTiming


@dataclass(frozen=True)
class Timing:
    lease_duration: str
    renew_interval: str
    request_timeout: str

    def check(self) -> None:
        """Raises ValueError with the sidecar's own words where it would refuse to start."""
        CheckedTiming(
            seconds(self.lease_duration),
            seconds(self.renew_interval),
            seconds(self.request_timeout),
        )

    def flags(self) -> list[str]:
        return [
            *("--lease-duration", self.lease_duration),
            *("--renew-interval", self.renew_interval),
            *("--request-timeout", self.request_timeout),
        ]
