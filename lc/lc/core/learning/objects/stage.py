"""The three stages of a round, with the words of each (prior art: Sedna's il and ll state machine).

Train > Eval > Deploy > the next round's Train; a failure anywhere begins the next round.
"""

from enum import Enum


class Stage(Enum):
    TRAIN = "Train"
    EVAL = "Eval"
    DEPLOY = "Deploy"

    @classmethod
    def named(cls, text: str) -> "Stage | None":
        """In any case: workers say it in lower case."""
        return next((each for each in cls if each.value.lower() == text.lower()), None)

    @property
    def folder(self) -> str:
        return self.value.lower()
