"""What `node doctor` finds, as it prints it: what would fail at a reboot now, and what it could not
see."""

from dataclasses import dataclass
from typing import Literal

# unknown: it could not be seen whether it fails.
Verdict = Literal["fails", "unknown"]


@dataclass(frozen=True)
class Finding:
    """`what` fails, `why`, and what helps."""

    what: str
    why: str
    remedy: str
    verdict: Verdict = "fails"

    def __str__(self) -> str:
        return f"{self.verdict}: {self.what}: {self.why}; {self.remedy}"

    def document(self) -> dict[str, str]:
        return {
            "verdict": self.verdict,
            "what": self.what,
            "why": self.why,
            "remedy": self.remedy,
        }


def unknown(what: str, why: str, remedy: str) -> Finding:
    return Finding(what, why, remedy, "unknown")
