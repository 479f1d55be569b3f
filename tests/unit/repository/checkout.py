"""The checkout as text: which files belong to it, and what the documents contain."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCUMENTS = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "examples/README.md"),
    "tests/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
)
# The document and heading of what adds each sidecar to a pod.
MANIFESTS = (
    ("docs/how-to/add-the-elector.md", "Add the elector to a pod"),
    ("docs/how-to/add-the-relay.md", "Add the relay to a pod"),
)
# Under which headings commands stand to be typed (```sh), and the test that types them. What needs
# root on a node, a cluster with nodes or a registry is ```console.
TYPED = {
    ("docs/how-to/relay-as-a-service.md", "The certificate and the token of its clients"): (
        "tests/integration/relay/process/test_service_page.py"
    ),
    (
        "docs/how-to/deploy-gm-and-lc.md",
        "The certificate of GM",
    ): "tests/unit/manifests/test_overlays.py",
    (
        "docs/how-to/add-the-elector.md",
        "Add the elector to a pod",
    ): "tests/integration/repository/test_commands.py",
    (
        "docs/how-to/run-a-program.md",
        "Start it",
    ): "tests/integration/elector/wrapped/test_wrapped.py",
    (
        "docs/how-to/look-at-it.md",
        "Several at once",
    ): "tests/integration/lib/top/test_top.py",
    **{
        ("docs/how-to/use-kubectl-elector.md", title): (
            "tests/integration/elector/commands/test_ctl.py"
        )
        for title in ("See who leads", "Look back")
    },
    **{
        (f"docs/tutorials/{page}.md", title): "tests/integration/repository/test_tutorials.py"
        for page, titles in {
            "relay": (
                *("Start a cloud and a relay", "Write and read through it", "Read from Python"),
                *("Cut the link", "Restart the relay while the link is down", "Clean up"),
            ),
            "operators": (
                *("Start a cloud and one relay", "Write the operators", "Run all three"),
                *("Count the watches", "Cut the link"),
                *("Change something that the edge cannot see", "Clean up"),
            ),
            "pool": (
                *("Start the site", "Make it a pool", "Cut the link of a node"),
                *("Let a node die", "Clean up"),
            ),
            "sedna": (
                *("Start a cloud", "Start two GMs", "Start an edge node", "Start the job"),
                *("Kill the leading GM", "See the job go on", "Clean up"),
            ),
        }.items()
        for title in titles
    },
    **{
        ("docs/tutorials/node.md", title): "tests/node/test_tutorial.py"
        for title in (
            *("Start two nodes", "Put a relay before the kubelet of edge-1"),
            *("Run something on both", "Cut the link of both", "Take their power"),
            *("Heal the link", "Clean up"),
        )
    },
    ("docs/how-to/manifests.md", "Add the elector in five minutes"): (
        "tests/integration/manifests/test_document.py"
    ),
    (
        "docs/how-to/manifests.md",
        "Let all replicas work",
    ): "tests/integration/manifests/test_document.py",
    ("docs/how-to/manifests.md", "Add the relay in five minutes"): (
        "tests/integration/manifests/test_document.py"
    ),
    (
        "docs/how-to/deploy-gm-and-lc.md",
        "Choosing an HA mode",
    ): "tests/integration/manifests/test_document.py",
    ("docs/tutorials/failover.md", "A program that wants to know"): (
        "tests/integration/manifests/test_tutorial.py"
    ),
    (
        "docs/tutorials/failover.md",
        "Add the elector",
    ): "tests/integration/manifests/test_tutorial.py",
    ("docs/tutorials/failover.md", "See who leads"): "tests/integration/manifests/test_tutorial.py",
    (
        "docs/tutorials/failover.md",
        "Delete the leader",
    ): "tests/integration/manifests/test_tutorial.py",
    ("docs/tutorials/failover.md", "Clean up"): "tests/integration/manifests/test_tutorial.py",
    ("docs/reference/relay-access.md", "On a node"): "tests/integration/relay/access/test_node.py",
    (
        "docs/how-to/upgrade.md",
        "Upgrade and roll back",
    ): "tests/integration/manifests/test_moving.py",
    ("docs/how-to/move-an-elector.md", "From contrib's leader-elector"): (
        "tests/integration/manifests/test_moving.py"
    ),
    (
        "docs/how-to/move-from-sedna.md",
        "From Sedna's GM and LC",
    ): "tests/integration/manifests/test_moving.py",
    (
        "docs/how-to/move-from-sedna.md",
        "All nodes at once",
    ): "tests/integration/manifests/test_moving.py",
    (
        "docs/how-to/move-from-sedna.md",
        "Node by node",
    ): "tests/integration/manifests/test_moving.py",
}
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
    (text,) = blocks(name, title, language)
    return text


def blocks(name: str, title: str, language: str) -> list[str]:
    """All of them, in their order, deeper headings' as well."""
    return re.findall(rf"^```{language}\n(.*?)^```$", section(name, title), re.M | re.S)


def fences(name: str) -> Iterator[tuple[str, str, str]]:
    """Of each fenced block, indented or not: the heading above it, its language, its text."""
    title, language, lines = "", None, list[str]()
    for line in document(name).splitlines():
        if fence := re.fullmatch(r" *```(.*)", line):
            if language is None:
                language, lines = fence[1], []
            else:
                yield title, language, "\n".join(lines)
                language = None
        elif language is not None:
            lines.append(line)
        elif heading := re.match(r"#+ (.+)", line):
            title = heading[1]
    assert language is None, f"{name}: a block is not closed"


def rows(name: str, title: str) -> list[list[str]]:
    """The cells of a section's tables, without titles and rulers, deeper headings' as well."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", section(name, title), re.M):
        for line in table.splitlines()[2:]:
            cells = re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))
            found.append([cell.strip().replace("\\|", "|") for cell in cells])
    return found


def _is_leftover(path: Path) -> bool:
    return not LEFTOVERS.isdisjoint(path.relative_to(ROOT).parts)
