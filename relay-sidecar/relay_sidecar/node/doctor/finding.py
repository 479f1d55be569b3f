"""One thing that would fail at a reboot now, as `node doctor` prints it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """`what` fails, `why`, and what helps."""

    what: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"fails: {self.what}: {self.why}; {self.remedy}"
