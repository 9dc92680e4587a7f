# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the lab computes without touching the machine: its cluster, configurations, control groups, inventory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lab import cgroups, containers, instance, inventory, pve_model, rootfs, spec
from lab.errors import LabError
from lab.instance import Instance
from lab.system import folder_lock, wait_for, write

ROOT = Path(__file__).resolve().parents[3]

V1 = """\
24 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
30 24 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset,clone_children
33 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/agent,name=systemd
34 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
35 24 0:28 / /mnt/again rw - cgroup cgroup rw,cpu,cpuacct
"""
V2 = "30 24 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"


@pytest.mark.parametrize(
    ("mountinfo", "expected"),
    [
        (
            V1,
            [
                ("/sys/fs/cgroup/cpu,cpuacct", "cgroup", "cpu,cpuacct"),
                ("/sys/fs/cgroup/cpuset", "cgroup", "cpuset"),
                ("/sys/fs/cgroup/systemd", "cgroup", "none,xattr,name=systemd"),
                ("/sys/fs/cgroup/unified", "cgroup2", ""),
            ],
        ),
        (V2, [("/sys/fs/cgroup", "cgroup2", "")]),
        ("24 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n", []),
    ],
    ids=["hybrid", "unified", "none"],
)
def test_hierarchies_of_a_machine(mountinfo: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(str(h.mount), h.kind, h.options) for h in cgroups.parse_mounts(mountinfo)] == expected


@pytest.mark.parametrize("path", ["", "init.scope", "/"])
def test_a_process_of_another_group_is_not_a_member(path: str) -> None:
    assert not cgroups.is_member(os.getpid(), f"trainops-lab/never/{path}".rstrip("/"))


def test_a_dead_pid_is_no_member() -> None:
    with (pid := Path("/proc/sys/kernel/pid_max")).open() as stream:
        assert not cgroups.is_member(int(stream.read()) + 1, pid.name)


def test_vmids_and_addresses_are_distinct() -> None:
    assert len({c.vmid for c in spec.CONTAINERS}) == len(spec.CONTAINERS)
    octets = [spec.API_OCTET, *(node.octet for node in spec.NODES)]
    assert len(set(octets)) == len(octets)


def test_every_gpu_of_the_cluster_has_its_own_uuid_and_bus_id() -> None:
    gpus = [gpu for node in spec.NODES for gpu in node.gpus]
    assert len({gpu.uuid for gpu in gpus}) == len(gpus) == 10
    for node in spec.NODES:
        assert len({gpu.bus_id for gpu in node.gpus}) == len(node.gpus)


def test_a_container_counts_its_gpus_from_zero_and_they_are_the_nodes() -> None:
    inside = spec.container_gpus(spec.container_spec(201))
    on_node = {gpu.minor: gpu for gpu in spec.node_spec("pve1").gpus}
    assert [gpu.index for gpu in inside] == [0, 1, 2, 3]
    assert [gpu.minor for gpu in inside] == [4, 5, 6, 7]
    assert [gpu.uuid for gpu in inside] == [on_node[minor].uuid for minor in (4, 5, 6, 7)]


@pytest.mark.parametrize(("look", "name"), [(spec.node_spec, "pve9"), (spec.container_spec, 299)])
def test_an_unknown_name_is_answered_with_the_known_ones(look: Callable[[object], object], name: object) -> None:
    with pytest.raises(KeyError, match=r"pve1, pve2|200, 201, 202, 210"):
        look(name)


@pytest.mark.parametrize("wanted", spec.CONTAINERS, ids=lambda wanted: str(wanted.vmid))
def test_config_as_proxmox_ve_writes_it(wanted: spec.ContainerSpec) -> None:
    text = containers.pve_config(wanted)
    options = [line.split(":")[0] for line in text.splitlines()]
    plain = [key for key in options if not key.startswith("lxc.")]
    assert plain == sorted(plain)
    assert options[len(plain) :] == [key for key in options if key.startswith("lxc.")]
    config = pve_model.parse_config(text)
    assert config["hostname"] == wanted.hostname
    assert config.get("unprivileged", 0) == int(wanted.unprivileged)
    raw = config.get("lxc", [])
    assert isinstance(raw, list)
    devices = {line.split()[0] for key, line in raw if key == "lxc.mount.entry"}
    devices |= {str(value) for key, value in config.items() if key.startswith("dev")}
    assert devices == {f"/dev/{name}" for name in spec.device_names(wanted.gpus)}


@pytest.mark.parametrize(
    "text",
    [
        "arch: amd64\ncores: 2\nhostname: a\nlock: backup\n",
        "cores: 1\nlxc.a: b\nlxc.mount.entry: /dev/x dev/x none bind 0 0\n",
        "description: a%3A b\nmp0: /data,mp=/data\nunprivileged: 1\n",
    ],
)
def test_config_read_and_written_is_the_same(text: str) -> None:
    assert pve_model.render_config(pve_model.parse_config(text)) == text


def test_config_ends_where_snapshots_begin() -> None:
    text = "#note\ncores: 4\nhostname: 12\n\n[before]\ncores: 1\n"
    assert pve_model.parse_config(text) == {"cores": 4, "hostname": "12"}


@pytest.mark.parametrize("recipe", rootfs.RECIPES)
def test_a_root_is_built_anew_when_its_recipe_changes(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rootfs.folder(recipe)
    changed = rootfs.Recipe("trixie", ("python3",))
    monkeypatch.setitem(rootfs.RECIPES, recipe, changed)
    assert rootfs.folder(recipe) != before


def test_ids_are_shifted_once_with_modes_kept(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("changing owners needs root")
    folder = tmp_path / "root"
    folder.mkdir()
    program = folder / "su"
    program.write_bytes(b"")
    program.chmod(0o4755)
    (folder / "hard").hardlink_to(program)
    (folder / "dangling").symlink_to("nowhere")
    os.chown(folder / "dangling", 5, 6, follow_symlinks=False)
    rootfs.shift_ids(folder, 1000)
    owners = {path.name: (path.lstat().st_uid, path.lstat().st_gid) for path in (folder, *folder.iterdir())}
    assert owners == {"root": (1000, 1000), "su": (1000, 1000), "hard": (1000, 1000), "dangling": (1005, 1006)}
    assert program.stat().st_mode & 0o7777 == 0o4755


def test_the_repositorys_inventory_is_the_default_labs() -> None:
    kept = (ROOT / "inventories/lab/hosts.yml").read_text()
    assert kept == inventory.render(Instance(instance.DEFAULT, 0))


def test_another_labs_inventory_has_its_addresses_key_and_port() -> None:
    group = yaml.safe_load(inventory.render(Instance("mine", 7, 2222)))["training"]
    assert group["hosts"]["ct210"] == {"ansible_host": "127.0.7.12", "proxmox_vmid": 210}
    assert "ct202" not in group["hosts"]
    assert group["vars"]["ansible_port"] == 2222
    assert group["vars"]["ansible_ssh_private_key_file"] == "/var/lib/trainops-lab/mine/keys/id_ed25519"


@pytest.mark.parametrize(("name", "expected"), [("", "default"), ("mine", "mine"), ("a-1", "a-1")])
def test_selected_lab(name: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINOPS_LAB", name)
    assert instance.selected_name() == expected


@pytest.mark.parametrize("name", ["../x", "Mine", "1st", "a b", "x" * 32, "a/b"])
def test_a_name_that_is_no_folders_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINOPS_LAB", name)
    with pytest.raises(LabError, match="TRAINOPS_LAB="):
        instance.selected_name()


@pytest.mark.parametrize("port", ["0", "65536", "ssh", "-1", "2.5"])
def test_a_port_that_is_none_is_refused(port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINOPS_LAB_SSH_PORT", port)
    with pytest.raises(LabError, match="TRAINOPS_LAB_SSH_PORT="):
        instance.selected_port()


def test_labs_get_addresses_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "STATE", tmp_path)
    monkeypatch.delenv("TRAINOPS_LAB_SSH_PORT", raising=False)
    first, default, second = (instance.claim(name) for name in ("one", "default", "two"))
    assert [lab.net for lab in (default, first, second)] == [0, 1, 2]
    assert instance.claim("one") == first
    (tmp_path / "one" / "lab.json").write_text("{")  # cut short
    assert instance.claim("three").net == 1


def test_write_replaces_only_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    assert write(path, "a", 0o640)
    inode = path.stat().st_ino
    assert not write(path, b"a", 0o640)
    assert path.stat().st_ino == inode
    assert write(path, "a", 0o600)
    assert write(path, "b", 0o600)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("b", 0o600)
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def test_the_lock_of_a_folder_that_was_removed_meanwhile_is_taken_on_the_new_one(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    with folder_lock(folder):
        folder.rmdir()
        with folder_lock(folder):  # would wait for ever if it held on to the removed one
            assert folder.is_dir()


def test_waiting_ends_with_what_was_waited_for() -> None:
    with pytest.raises(LabError, match="the moon: not within 0 s"):
        wait_for(lambda: False, "the moon", 0)
