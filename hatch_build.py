"""The README as package indexes show it: its links become addresses, since no file lies beside it there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[([^\]\n]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
"""A Markdown link or image whose target is a file."""


class ReadmeHook(MetadataHookInterface):
    """Sets `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text("utf-8")
        source, tag = metadata["urls"]["Source"], f"v{metadata['version']}"
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, source, tag)}


def absolute(text: str, source: str, tag: str) -> str:
    """A page of the repository at `source` with absolute links to its files of a tag."""
    return LINK.sub(
        lambda link: f"{link[1]}[{link[2]}]({source}/{'raw' if link[1] else 'blob'}/{tag}/{link[3]})", text
    )
