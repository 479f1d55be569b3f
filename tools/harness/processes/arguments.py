"""Arguments of a program, where a test gives a flag that its harness gives too. Pure.

The programs refuse a flag that is given twice.
"""

from collections.abc import Collection, Iterable

# Those that may be repeated; GM's --namespace too.
REPEATED = frozenset(
    {"--allowed-host", "--files-root", "--lan-address", "--pool-resource", "--preload"}
)


def latest_of_each(arguments: Iterable[str], *, repeated: Collection[str] = REPEATED) -> list[str]:
    """Without the values of a flag that a later one replaces."""
    groups: list[list[str]] = []
    for word in arguments:
        is_value = groups and len(groups[-1]) == 1 and _takes_next(groups[-1][0])
        if is_value and not word.startswith("-"):
            groups[-1].append(word)
        else:
            groups.append([word])
    names = [group[0].partition("=")[0] for group in groups]
    kept = [
        group
        for index, group in enumerate(groups)
        if not names[index].startswith("--")
        or names[index] in repeated
        or names[index] not in names[index + 1 :]
    ]
    return [word for group in kept for word in group]


def _takes_next(word: str) -> bool:
    return word.startswith("--") and "=" not in word
