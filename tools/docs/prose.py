"""`python -m tools.docs.prose`: manuals, docstrings and comments are plain technical English.

Owns the rules that a machine can check: words, length of sentences, passives, length of a page, the
line that names its reader, and how the docstring of a public name opens. The words and limits are
data, in prose.toml. Code, addresses and generated rows are not prose; a cell of a table and an item
of a list end a sentence.

Exit status: 0, or 1 where a page or a module breaks a rule; `--figures` prints each page's means.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.docs.source_prose import modules, passages

ROOT = Path(__file__).parents[2]
RULES = Path(__file__).with_name("prose.toml")
# Below it, each page names its reader.
MANUALS = "docs"
CHANGELOG = "CHANGELOG.md"
# Read by people as well, without a reader's line.
BESIDE = ("README.md", "CONTRIBUTING.md", "SECURITY.md", CHANGELOG)
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[([^]]*)\]\([^)]*\)")
_CODE = re.compile(r"``.+?``|`[^`]*`")
_SENTENCE_END = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?:(?<=[.!?])|(?<=[.!?]\*\*)|(?<=[.!?]\)))\s+")
_PASSIVE = re.compile(
    r"\b(?:is|are|was|were|been|being|be)\s+(?:\w+ly\s+|not\s+|never\s+|then\s+)?"
    r"(?:\w+ed|made|kept|sent|given|taken|held|written|read|found|shown|lost|built|done|known|seen"
    r"|put|set|cut|left|met|drawn|begun|chosen|gone|run)\b"
)


@dataclass(frozen=True)
class Word:
    pattern: re.Pattern[str]
    instead: str
    pages_only: bool


@dataclass(frozen=True)
class Rules:
    words: tuple[Word, ...]
    mean_words: float
    longest_sentence: int
    page_words: int
    passives: int
    opening_tense: re.Pattern[str]
    unfinished: frozenset[str]


@dataclass(frozen=True)
class Sentence:
    """`is_cell`: of a table, whose cells may be one word and do not count for a page's mean."""

    line: int
    text: str
    is_cell: bool

    @property
    def words(self) -> int:
        return len(re.findall(r"[^\W_][\w'./-]*", self.text))


def rules() -> Rules:
    data = tomllib.loads(RULES.read_text(encoding="utf-8"))
    words = (
        Word(re.compile(it["pattern"], re.IGNORECASE), it["instead"], it.get("pages_only", False))
        for it in data["word"]
    )
    tense = re.compile(data["opening_tense"], re.IGNORECASE)
    return Rules(
        tuple(words),
        **data["limits"],
        opening_tense=tense,
        unfinished=frozenset(data["unfinished"]),
    )


def sentences(text: str) -> Iterator[Sentence]:
    """Of Markdown, with the lines on which their blocks begin; code is one word."""
    for name in (_FENCE, _COMMENT):
        text = name.sub(lambda found: "\n" * found[0].count("\n"), text)
    for line, block, is_cell in _blocks(text):
        plain = _CODE.sub("Code", _LINK.sub(r"\1", block))
        plain = re.sub(r"https?://\S+", "address", plain)
        for sentence in _SENTENCE_END.split(plain):
            if re.search(r"[a-z]", sentence):
                yield Sentence(line, " ".join(sentence.split()), is_cell)


def _blocks(text: str) -> Iterator[tuple[int, str, bool]]:
    """Paragraphs, items of lists, cells of tables (True); headings are none."""
    lines = list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        is_table = line.lstrip().startswith("|")
        is_item = re.match(r"\s*(?:[-*]|\d+\.) ", line) is not None
        is_heading = line.startswith("#")
        if lines and (not line.strip() or is_table or is_item or is_heading):
            yield number - len(lines), " ".join(lines), False
            lines = []
        if is_table:
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            yield from ((number, it, True) for it in cells if not re.fullmatch(r"[\s:-]*", it))
        elif line.strip() and not is_heading:
            lines.append(re.sub(r"^\s*(?:[-*]|\d+\.) ", "", line))


def problems(name: str, text: str, by: Rules) -> Iterator[str]:
    """What a page has against the rules, each with the line of its block."""
    found = list(sentences(text))
    for it in found:
        yield from _sentence_problems(f"{name}:{it.line}", it, by, by.words)
        if len(passive := _PASSIVE.findall(it.text)) > by.passives:
            yield f"{name}:{it.line}: {len(passive)} passives ({', '.join(passive)}): who acts?"
    if found and (mean := _mean(found)) > by.mean_words:
        yield f"{name}: {mean:.1f} words a sentence, more than {by.mean_words:g}"
    if name.startswith(f"{MANUALS}/"):
        if (count := len(re.findall(r"\S*\w\S*", text))) > by.page_words:
            yield f"{name}: {count} words, more than {by.page_words}: split it"
        if not re.match(r"# .+\n\nFor [^\n]+\.\n\n", text):
            yield f'{name}: the line after the title does not name its reader ("For people who …")'
        for test in re.findall(r"\btest_[a-z0-9_]+", text):
            yield f"{name}: names the test {test}: a manual has none"


def module_problems(name: str, text: str, by: Rules) -> Iterator[str]:
    """What the docstrings and comments of a module have against the rules."""
    words = [it for it in by.words if not it.pages_only]
    for passage in passages(text):
        found = list(sentences(passage.text))
        for it in found:
            yield from _sentence_problems(f"{name}:{passage.line + it.line - 1}", it, by, words)
        if passage.is_public and found:
            opening = passage.text.split("\n\n")[0].rstrip()
            if not opening.endswith((".", ":")):
                yield f"{name}:{passage.line}: no full stop after {opening[-50:]!r}"
            if hit := by.opening_tense.search(found[0].text):
                yield f"{name}:{passage.line}: {hit[0]!r} in {found[0].text[:60]!r}…: present tense"


def _sentence_problems(where: str, it: Sentence, by: Rules, words: Iterable[Word]) -> Iterator[str]:
    if it.words > by.longest_sentence:
        yield f"{where}: {it.words} words in a sentence: {it.text[:70]}…"
    for word in words:
        if hit := word.pattern.search(it.text):
            yield f"{where}: {hit[0]!r} in {it.text[:60]!r}…: {word.instead}"


def _mean(found: list[Sentence]) -> float:
    counts = [it.words for it in found if not it.is_cell]
    return sum(counts) / max(1, len(counts))


def pages(root: Path) -> dict[str, str]:
    """The text of each page; of the changelog its newest release."""
    names = [*BESIDE, *(str(it.relative_to(root)) for it in (root / MANUALS).rglob("*.md"))]
    texts = {it: (root / it).read_text(encoding="utf-8") for it in sorted(names)}
    texts[CHANGELOG] = re.split(r"^## ", texts[CHANGELOG], maxsplit=2, flags=re.MULTILINE)[1]
    return texts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.docs.prose", description=__doc__)
    parser.add_argument("--figures", action="store_true", help="means and counts of each page")
    parser.add_argument("page", nargs="*", help="those pages or modules alone")
    args = parser.parse_args()
    by, status = rules(), 0
    for name, text in modules(ROOT).items():
        if not args.figures and name in (args.page or [name]):
            found = list(module_problems(name, text, by))
            status |= bool(found)
            print("".join(f"{it}\n" for it in found), end="")
    for name, text in pages(ROOT).items():
        if name not in (args.page or [name]) or (name in by.unfinished and not args.page):
            continue
        found = list(problems(name, text, by))
        status |= bool(found)
        if not args.figures:
            print("".join(f"{it}\n" for it in found), end="")
        else:
            all_ = list(sentences(text))
            longest = max(it.words for it in all_)
            words = len(re.findall(r"\S*\w\S*", text))
            print(f"{name}: {words} words, mean {_mean(all_):.1f}, longest {longest}, {len(found)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
