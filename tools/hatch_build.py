"""Put the collection into the wheel, beside the Python package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


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
