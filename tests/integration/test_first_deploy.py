# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A user's first ten minutes go as docs/first-deploy.md shows them, word for word."""

from __future__ import annotations

import re

from lab import first_deploy
from lab.api import open_lab


def test_the_page_shows_what_happens() -> None:
    with first_deploy.user_folder() as folder:
        played = first_deploy.play(open_lab(), folder)
    # The interpreter of the user's own machine may be another one than that with which the page was recorded.
    shown = [
        re.sub(r"(/home/you/venv/bin/python) [0-9.]+", r"\1", text) for text in (played, first_deploy.PAGE.read_text())
    ]
    assert shown[0] == shown[1], "make transcript records it anew"
