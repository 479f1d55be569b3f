"""What a mistyped word was meant to be. Pure."""

from collections.abc import Iterable

# Letters: two cover a swapped pair and one that is missing beside one that is wrong.
MAX_DISTANCE = 2


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word with the fewest letters to change, to add or to leave out, at most
    `MAX_DISTANCE`; the first of several."""
    distances = {it: distance(word, it) for it in known if abs(len(word) - len(it)) <= MAX_DISTANCE}
    found = min(distances, key=lambda it: distances[it], default=None)
    return found if found is not None and distances[found] <= MAX_DISTANCE else None


def distance(a: str, b: str) -> int:
    """Levenshtein's."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(row[-1] + 1, before[j] + 1, before[j - 1] + (x != y)))
    return row[-1]
