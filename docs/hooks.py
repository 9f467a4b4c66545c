"""What the site needs beside the files of this folder: pages of other folders, and links that lead to them.

On the site a file has the path that it has in the repository, but for `docs/`, which is left out.
"""

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
ADDED = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "slurm/README.md", "slurm/profiles/*.toml"),
    *("results/published/*.md", "results/measured/*/*", "results/measured/*.parquet"),
)
LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add pages and pictures of other folders."""
    for path in sorted(path for pattern in ADDED for path in ROOT.glob(pattern)):
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Have links between files of the repository lead to the same files on the site."""
    here = page.file.src_uri
    folder = posixpath.dirname(here if (ROOT / here).exists() else f"docs/{here}")

    def to_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[0])).removeprefix("docs/")
        return os.path.relpath(target, posixpath.dirname(here) or ".")

    return LINK.sub(to_site, markdown)
