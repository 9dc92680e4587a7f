# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a launch starts what the user has before him: the project on the controller beside what is live."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from typing import Any

from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.store import short_id
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import TrainopsError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import project_of
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import path_text


class Comparison:
    """Reads the project beside the launch, which it must neither hold up for long nor fail."""

    def __init__(self, options: Mapping[str, Any], cwd: str) -> None:
        self._options = options
        self._cwd = cwd
        self._id: str | None = None
        self._thread: threading.Thread | None = None
        if options["compare"] and options["project"] and not options["release"]:
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()

    def _read(self) -> None:
        options = self._options
        # A project that cannot be read, or is too large to be one, is for the next deploy to complain of.
        with contextlib.suppress(TrainopsError, OSError):
            self._id = project_of(options, self._cwd).release_id

    def notes(self, live: str) -> list[str]:
        """What is to be said when the release ``live`` is started, once the project is read."""
        if self._thread is not None:
            self._thread.join()
        if self._id is None or self._id == live:
            return []
        spec = self._options["project"]
        where = f" in {path_text(os.path.normpath(os.path.join(self._cwd, spec)))}" if isinstance(spec, str) else ""
        return [f"the project{where} is not what is live ({short_id(live)}): deploy first, or see trainops diff"]
