"""Makes samples for the examples: python make_data.py FILE COUNT [SEED], appended as csv lines."""

import random
import sys
from pathlib import Path

# A point is of class 1 above the line x1 + 2 * x2 = 1; so many labels are wrong.
NOISE = 0.03


def lines(count: int, seed: int) -> list[str]:
    """`x1,x2,label`, both features between -2 and 2."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        x1, x2 = chance.uniform(-2, 2), chance.uniform(-2, 2)
        label = (x1 + 2 * x2 > 1) != (chance.random() < NOISE)
        found.append(f"{x1:.4f},{x2:.4f},{int(label)}\n")
    return found


def append(path: Path, count: int, *, seed: int) -> None:
    """Adds samples to a file, which is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(lines(count, seed))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or not sys.argv[2].isdigit():
        sys.exit(__doc__)
    append(Path(sys.argv[1]), int(sys.argv[2]), seed=int((*sys.argv, "0")[3]))
