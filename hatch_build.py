"""Metadata of both distributions that need the address of the repository, which stands here alone.

Package indexes show a README without the files beside it, so its relative links become absolute.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ADDRESS = "https://example.org/tpnn"  # stands for the address, until there is one
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:)([^)]+)\)")
URLS = {
    "Homepage": ADDRESS,
    "Documentation": f"{ADDRESS}/tree/main/docs",
    "Repository": ADDRESS,
    "Issues": f"{ADDRESS}/issues",
    "Changelog": f"{ADDRESS}/blob/main/CHANGELOG.md",
}


def absolute(text: str, folder: PurePosixPath) -> str:
    """Return Markdown of a folder of the repository, its relative links made absolute."""

    def replaced(link: re.Match[str]) -> str:
        image, words, target = link.groups()
        kind = "raw" if image else "blob"
        return f"{image}[{words}]({ADDRESS}/{kind}/main/{normpath(folder / target)})"

    return LINK.sub(replaced, text)


class Metadata(MetadataHookInterface):
    """What hatch asks for: the README and the addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add them."""
        folder = Path(self.root)
        beside = PurePosixPath(folder.relative_to(Path(__file__).parent).as_posix())
        text = absolute((folder / "README.md").read_text("utf-8"), beside)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = URLS
