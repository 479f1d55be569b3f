"""The checkout as text: which files belong to it, and what the documents contain."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCUMENTS = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *("docs/elector.md", "docs/relay.md", "docs/gm.md", "docs/lc.md", "docs/manifests.md"),
)
# Of the README: what adds each sidecar to a pod.
MANIFESTS = ("Add the elector to a pod", "Add the relay to a pod")
# Where git cannot tell (a tarball, no git): what tools leave behind, as in .gitignore.
LEFTOVERS = {
    *(".git", ".venv", "__pycache__", "build", "dist", "results"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".import_linter_cache"),
}


def tracked_files() -> list[Path]:
    """Every file of the repository, also one that was added but not committed yet."""
    try:
        listed = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return [path for path in ROOT.rglob("*") if path.is_file() and not _is_leftover(path)]
    paths = [ROOT / name.decode() for name in listed.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


def tracked_texts() -> Iterator[tuple[str, str]]:
    """Name and contents of every text file."""
    for path in tracked_files():
        try:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def document(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(name: str, title: str) -> str:
    """What stands in a document under a heading, up to the next one of that rank or a higher."""
    text = document(name)
    found = re.search(rf"^(##+) {re.escape(title)}\n", text, re.M)
    assert found, f"{name} has no section {title!r}"
    rest = text[found.end() :]
    # One # alone begins a comment of a block.
    end = re.search(rf"^##{{1,{len(found[1]) - 1}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def block(name: str, title: str, language: str) -> str:
    """The one fenced block of a language under a heading."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", section(name, title), re.M | re.S)
    assert isinstance(text, str)
    return text


def _is_leftover(path: Path) -> bool:
    return not LEFTOVERS.isdisjoint(path.relative_to(ROOT).parts)
