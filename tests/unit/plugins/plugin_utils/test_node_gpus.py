# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every form in which a configuration gives a container GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils.gpus import node_snapshot
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_facts import Config
from ansible_collections.trainops.proxmox.plugins.plugin_utils.node_gpus import given

from tests.unit.gpu_samples import gpu_row, uuid, view

GPUS = node_snapshot(view([gpu_row(number, number) for number in range(4)])).gpus
HOOK = ("lxc.hook.mount", "/usr/share/lxc/hooks/nvidia")


def visible(value: str) -> list[tuple[str, str]]:
    return [HOOK, ("lxc.environment", f"NVIDIA_VISIBLE_DEVICES={value}")]


CASES: list[tuple[list[tuple[str, str]], list[int], str]] = [
    ([], [], ""),
    ([("dev0", "/dev/nvidia0,gid=44"), ("dev1", "/dev/nvidiactl"), ("dev2", "/dev/nvidia-uvm")], [0], ""),
    ([("dev3", "path=/dev/nvidia2,mode=0666"), ("dev10", "deny-write=1,path=/dev/nvidia1")], [1, 2], ""),
    ([("dev4", "/dev/nvidia-caps/nvidia-cap1,mode=0666"), ("dev5", "/dev/dri/renderD128")], [], ""),
    ([("lxc.mount.entry", "/dev/nvidia3 dev/nvidia3 none bind,optional,create=file")], [3], ""),
    ([("lxc.mount.entry", "/dev/nvidia3 dev/nvidia3 none bind"), ("dev0", "/dev/nvidia3")], [3], ""),
    ([("lxc.mount.entry", "/dev/dri dev/dri none bind,optional,create=dir")], [], ""),
    ([("lxc.mount.entry", "/dev/nvidia-caps dev/nvidia-caps none bind,optional,create=dir")], [], ""),
    ([("lxc.mount.entry", "/dev/ dev none rbind")], [0, 1, 2, 3], ""),
    ([("lxc.mount.entry", "")], [], ""),
    ([("mp0", "/dev/nvidia1,mp=/dev/nvidia1"), ("mp1", "/data,mp=/dev/nvidia0")], [1], ""),
    (visible("all"), [0, 1, 2, 3], ""),
    (visible("none"), [], ""),
    (visible("void"), [], ""),
    (visible("0,3"), [0, 3], ""),
    (visible(f"{uuid(2)},"), [2], ""),
    (visible("9"), [], "NVIDIA_VISIBLE_DEVICES names 9"),
    (visible("0:1"), [], "names 0:1"),
    ([HOOK], [], ""),
    ([("lxc.environment", "NVIDIA_VISIBLE_DEVICES=all")], [], ""),
    ([("lxc.hook.mount", "/usr/share/lxc/hooks/other"), ("lxc.environment", "NVIDIA_VISIBLE_DEVICES=all")], [], ""),
    ([HOOK, ("lxc.environment.runtime", "NVIDIA_VISIBLE_DEVICES=1")], [1], ""),
    ([("dev0", "/dev/nvidia7")], [7], "the node has no /dev/nvidia7"),
    ([("hookscript", "local:snippets/gpu.sh")], [], "its hookscript local:snippets/gpu.sh may pass more"),
]


@pytest.mark.parametrize(("lines", "minors", "note"), CASES)
def test_what_a_configuration_gives(lines: list[tuple[str, str]], minors: list[int], note: str) -> None:
    found, said = given(Config(200, "running", tuple(lines)), GPUS)
    assert found == minors
    assert (note in said) if said and note else (said or "") == note


def test_indexes_are_not_minor_numbers() -> None:
    """nvidia-smi counts in the order of PCI addresses, the device files may not."""
    swapped = node_snapshot(view([gpu_row(0, 0), gpu_row(1, 1)], minors={"0000:00:00.0": 1, "0000:01:00.0": 0})).gpus
    assert given(Config(200, "running", tuple(visible("0"))), swapped) == ([1], None)


def test_all_of_what_could_not_be_read_is_said() -> None:
    minors, note = given(Config(200, "running", tuple(visible("all"))), ())
    assert minors == []
    assert note == "it is given all GPUs of the node (NVIDIA_VISIBLE_DEVICES=all), and these could not be read"
