# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading what an ended process wrote while another keeps its stream open."""

from __future__ import annotations

import os
import subprocess

from ansible_collections.trainops.proxmox.plugins.plugin_utils.pipes import Drain


def test_all_is_there_though_another_process_keeps_the_stream_open() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as stream:
        drain = Drain(stream)
        subprocess.run(["/bin/sh", "-c", "printf '%0100000d' 7 >&2"], stderr=writer, check=True)
        assert drain.finish() == b"0" * 99999 + b"7"
    os.close(writer)


def test_no_more_than_the_limit_is_kept() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as stream:
        drain = Drain(stream, limit=10)
        os.write(writer, b"x" * 1000)
        os.close(writer)
        assert drain.finish() == b"x" * 10
