"""The durations of one election and what follows from them.

Owns the arithmetic of safety: how long an acknowledged write lets its sender answer 200, and
which sets of flags are refused. Knows no clock. All values are float seconds.
"""

from dataclasses import dataclass

# Clocks of two nodes may run at different rates (docs/explanation/election.md, assumption 1).
# client-go leaves the ratio to the user (leaderelection.go, package comment).
CLOCK_RATE_EPSILON = 0.05
# From the evaluation of an answer to its arrival at a client on the same machine.
MARGIN = 0.25
# Contract, section 2: after a failure another attempt follows so soon; Retry-After may make it
# later, up to RETRY_AFTER_LIMIT, and never sooner.
RETRY_DELAY = 0.5
# Between two requests of one kind that failed, at most, where no lead and no release is at stake:
# as seldom as client-go's, and soon enough to lead within two seconds of a healing.
LONGEST_RETRY = 2.0
RETRY_AFTER_LIMIT = 1.0
# An attempt without an answer for so long gets a second one on another connection.
HEDGE_DELAY = 1.0
# A leader whose Lease was deleted writes itself back within an event and a write; only after this
# does a standby create one.
CREATE_VACANT_DELAY = 0.25
# Standbys spread their attempts on an expired Lease over this span.
TAKEOVER_JITTER = 0.05
# A holder that is not marked as ours stops up to `response + P + R` late (hazard H1).
FOREIGN_FACTOR = 1.2

MIN_LEASE_DURATION = 3.0
# A day: no pod takes over from a dead leader sooner; the Lease itself holds an int32.
MAX_LEASE_DURATION = 86400.0
MIN_RENEW_INTERVAL = 1.0


class UnsafeTiming(ValueError):
    """A set of durations under which two leaders are possible; the message shows the values."""


@dataclass(frozen=True)
class Timing:
    """Checked on construction; raises `UnsafeTiming`."""

    lease_duration: float = 15.0
    renew_interval: float = 2.0
    request_timeout: float = 3.0

    def __post_init__(self) -> None:
        if self.lease_duration != int(self.lease_duration):
            raise UnsafeTiming(
                f"--lease-duration {self.lease_duration:g}s is not whole seconds: the Lease stores "
                f"leaseDurationSeconds; use {max(int(self.lease_duration), 3)}s"
            )
        if self.lease_duration < MIN_LEASE_DURATION:
            raise UnsafeTiming(
                f"--lease-duration {self.lease_duration:g}s is under {MIN_LEASE_DURATION:g}s: use "
                "that, or more"
            )
        if self.lease_duration > MAX_LEASE_DURATION:
            raise UnsafeTiming(
                f"--lease-duration {self.lease_duration:g}s is over {MAX_LEASE_DURATION:g}s: "
                "for so long no pod would take over from a dead leader; use 1d, or less"
            )
        if self.renew_interval < MIN_RENEW_INTERVAL:
            raise UnsafeTiming(
                f"--renew-interval {self.renew_interval:g}s is under {MIN_RENEW_INTERVAL:g}s: "
                "client-go followers see only whole seconds; use 1s, or more"
            )
        if self.request_timeout <= 0:
            raise UnsafeTiming(
                f"--request-timeout {self.request_timeout:g}s is not positive: use 3s, or less"
            )
        spent = self.renew_interval + self.request_timeout + MARGIN
        usable = self.lease_duration * (1 - CLOCK_RATE_EPSILON)
        if spent >= usable:
            raise UnsafeTiming(
                f"--renew-interval {self.renew_interval:g}s + --request-timeout "
                f"{self.request_timeout:g}s + margin {MARGIN:g}s = {spent:g}s must be under "
                f"--lease-duration {self.lease_duration:g}s x {1 - CLOCK_RATE_EPSILON:g} = "
                f"{usable:g}s: raise --lease-duration or lower one of the others"
            )

    @property
    def validity(self) -> float:
        """How long after its *sending* an acknowledged write lets us answer 200."""
        return self.lease_duration * (1 - CLOCK_RATE_EPSILON) - MARGIN

    @property
    def slack(self) -> float:
        """What is left of the validity when the next renewal takes as long as it may."""
        return self.validity - self.renew_interval - self.request_timeout

    def tolerances(self) -> dict[str, str]:
        """What the set rides out, for the log line at start."""
        outage = self.validity - self.renew_interval - RETRY_DELAY
        worst_crash = self.lease_duration + TAKEOVER_JITTER
        return {
            "api_outage_ridden_out": f"{outage:.2f}s",
            "takeover_after_crash": f"{worst_crash:.2f}s after the last renewal",
            "takeover_after_release": "one round trip of the watch and one write",
            "clock_rate_ratio": f"{1 - CLOCK_RATE_EPSILON:g}",
        }
