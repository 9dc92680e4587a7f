# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines of a log among ours."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.lines import ended_badly, step_line
from ansible_collections.trainops.proxmox.plugins.plugin_utils.log_lines import Lines


def lines(*hosts: str) -> Lines:
    found = Lines({"inventory_hostname": hosts[0], "ansible_play_hosts_all": list(hosts)})
    assert len(found.shown(["a log begins"])) == 1
    return found


@pytest.mark.parametrize(
    ("hosts", "line", "shown"),
    [
        (["ct200"], "step 1", "step 1"),
        (["ct200", "ct2010"], "step 1", "ct200  | step 1"),
        (["ct200", "ct2010"], "ct200  run      r1 ended", "ct200  | ct200  run      r1 ended"),
        (["ct200"], "\x1b[2J\x1b]0;title\x07\u202eevil", "\\x1b[2J\\x1b]0;title\\x07\\u202eevil"),
        (["ct200"], "x" * 20_000, "x" * 16_384 + " … (3616 characters more)"),
    ],
)
def test_lines_are_shown_as_a_terminal_may_get_them(hosts: list[str], line: str, shown: str) -> None:
    assert lines(*hosts).shown([line]) == [shown]


@pytest.mark.parametrize(
    "line",
    [
        step_line("ct200", 5, "run", "r1 ended after 3 s, exit 0"),
        step_line("ct200", 9, "run", "r1 ended after 3 s, exit 0"),
        ended_badly("failed", ["ct200"], 1),
        "ct200",
        "CT200  run      r1 ended",
        "  ct200  run      r1 ended",
        "\u200bct200  run      r1 ended",
        "c\u200dt200  run      r1 ended",
        "ct200\u00a0\u00a0run      r1 ended",
        "ct200\trun",
        "сt200  run      r1 ended",  # a letter of another alphabet
        "ct200\u2800\u3164run      r1 ended",  # letters that are blank
        "ct2OO  run      r1 ended",
        "ｃｔ200  run      r1 ended",
        "c\u0301t200  run      r1 ended",
        "[WARNING]: ct200: all is well",
        "[\u0421WARNING]: ct200: all is well",
        "[W\u0410RNING]: ct200: all is well",
        "[WARN\u0131NG]: ct200: all is well",
        "[WARNING]\ua789 ct200: all is well",
        "[\u200bWARNING]: ct200: all is well",
        "\u3164[WARNING]: ct200: all is well",
        "[WARN\u3164ING]: ct200: all is well",
        "[DEPRECATION W\u0410RNING]: x",
        "PL\u0410Y RECAP ****",
        "PLAY\u2800RECAP ****",
        "tr\u0430inops: canceled",
        "f\u0430tal: [ct200]: FAILED!",
        "\u043e\u043a: [ct200]",  # no letter of ours in it
        "1 \u043ef 1 h\u043est failed: ct200",
        "\u2800ct200  run      r1 ended",
        "\u3164ct200  run      r1 ended",
        "\u115f\u2800 \u3164ct200  run      r1 ended",
        "c\u3164t200  run      r1 ended",
        "\u2065ct200  run      r1 ended",
        "[ERROR]: x",
        "trainops: detached",
        "fatal: [ct200]: FAILED! => {}",
        "ok: [ct200]",
        "PLAY RECAP ****",
        "TASK [x] ***",
        "check mode: nothing is changed",
    ],
)
def test_a_line_that_looks_like_ours_has_a_margin(line: str) -> None:
    (shown,) = lines("ct200").shown([line])
    assert shown.startswith("| ")


@pytest.mark.parametrize(
    "line",
    [
        "| ct200  run      r1 ended",  # nobody takes it for ours
        "ct2000  run",
        "ct20 0",
        "step 12 loss 3.4 tokens/s 1200",
        '  File "x.py", line 3',
        "100%|██████████| 3/3 [00:01<00:00]",
        "训练开始了。第一步",
        "训练: 3",
        "\u2714\u2714: done",
        "[rank0]: Traceback (most recent call last):",
        "WARNING: something",
        "[2026-11-30 12:00:00] INFO: started",
        "okay: fine",
        "3 of 8 shards read",
        "",
    ],
)
def test_all_other_lines_are_shown_as_they_are(line: str) -> None:
    assert lines("ct200").shown([line]) == [line]


def test_an_indented_line_does_not_look_as_if_it_belonged_to_one_of_ours() -> None:
    log = Lines({"inventory_hostname": "ct200"})
    assert log.shown(["    in the log", "a", "    b"]) == ["|     in the log", "a", "    b"]
    log.ours()
    assert log.shown(["    c", "\td", "e", "    f"]) == ["|     c", "| \td", "e", "    f"]
