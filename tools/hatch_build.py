"""Put the collection into the wheel, beside the Python package, and a README that stands alone into its metadata."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class CollectionHook(BuildHookInterface):  # type: ignore[type-arg]
    """Map what `ships` lists (those that exist) to the folder `collection` of a standard wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the collection's files to `build_data`; an editable wheel gets none, there the repository is linked."""
        if version != "standard":
            return
        target = self.config["collection"]
        for name in self.config["ships"]:
            if Path(self.root, name).exists():
                build_data["force_include"][name] = f"{target}/{name}"


class ReadmeHook(MetadataHookInterface):
    """Give the package the README as its description, where links to files of the repository would lead nowhere."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme` in `metadata`."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": without_links(text)}


def without_links(text: str) -> str:
    """Return Markdown with each link to a file as the link's text and the file's path."""

    def named(match: re.Match[str]) -> str:
        words, path = match[1], match[2]
        return f"`{path}`" if words.strip("`") in (path, Path(path).name) else f"{words} (`{path}`)"

    return re.sub(r"\[([^\]]+)\]\((?!\w+:|#)([^)#\s]+)(?:#[^)]*)?\)", named, text)
