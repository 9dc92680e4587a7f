# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The processes of a test are told with what they wait for."""

from __future__ import annotations

import os
import subprocess

from tests.hanging import described, family


def test_a_child_that_waits_is_told_with_its_pipe() -> None:
    with subprocess.Popen(["/bin/sh", "-c", "read line; exit 3"], stdin=subprocess.PIPE) as child:
        assert child.pid in family(os.getpid())
        told = described(child.pid)
        assert told.startswith(f"  {child.pid} ")
        assert "read line; exit 3" in told
        assert "0=pipe:[" in told
        assert child.stdin
        child.stdin.close()
        assert child.wait(60) == 3
    assert described(child.pid).startswith(f"  {child.pid} gone ")
