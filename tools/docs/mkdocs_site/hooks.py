"""What MkDocs does besides its own: the README is the first page, and a link to a file of the
repository that is no page leads to the repository's host.

Guarantee: such a link is checked here: a file that does not exist is a warning, which fails a
strict build.
"""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

logger = logging.getLogger("mkdocs.plugins.edge_sidecars")
# Below it are the pages.
DOCS = "docs"
LINK = re.compile(r"(\]\(|src=\"|href=\")(?!https?:|mailto:|#)([^)\s\"]+)")
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """The README is the site's first page."""
    readme = Path(config.config_file_path).with_name("README.md")
    files.append(File.generated(config, "index.md", content=readme.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: Any, files: Files) -> str:
    root = Path(config.config_file_path).parent
    source = "README.md" if page.file.src_uri == "index.md" else f"{DOCS}/{page.file.src_uri}"

    def replaced(found: re.Match[str]) -> str:
        return found[1] + _target(found[2], source, root=root, repository=config.repo_url)

    parts = FENCE.split(markdown)
    # Every second one is a block of code.
    return "".join(part if i % 2 else LINK.sub(replaced, part) for i, part in enumerate(parts))


def _target(link: str, source: str, *, root: Path, repository: str) -> str:
    """`link` as it is from the page that is made of `source`."""
    path, hash_, anchor = link.partition("#")
    named = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if named.startswith(f"{DOCS}/"):
        here = posixpath.dirname(source.removeprefix(f"{DOCS}/"))
        return posixpath.relpath(named.removeprefix(f"{DOCS}/"), here or ".") + hash_ + anchor
    if named == "README.md":
        return posixpath.relpath(
            "index.md", posixpath.dirname(source.removeprefix(f"{DOCS}/")) or "."
        )
    if not (root / named).exists():
        logger.warning("%s: the link %s leads to no file", source, link)
    kind = "tree" if (root / named).is_dir() else "blob"
    return f"{repository}/{kind}/main/{named}{hash_}{anchor}"
