"""The files that ``trainops init`` writes, and its report, from what a survey found."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit import releasing
from trainops import starting
from trainops.errors import FileExists, ProjectNotFound, WrongTarget
from trainops.report import report
from trainops.results import Reason
from trainops.runner import run_playbook
from trainops.starting import Found, files, survey, write
from trainops.targets import read_target

NODE: dict[str, Any] = {
    "node": "pve1",
    "login": "root",
    "may_enter": ["lxc-attach", "pct"],
    "pve_version": "9.2.11",
    "containers": [{"vmid": 200, "name": "train-a", "state": "running", "gpus": [0, 1]}],
    "gpus": [{"index": index, "name": "NVIDIA H200", "memory_total_mib": 143771} for index in range(2)],
    "gpu_summary": "2 of 2 idle, 0 MiB each, no holder",
    "table": "vmid  state    name     GPUs of the node\n 200  running  train-a  0, 1",
    "warnings": [],
}
SURVEY: dict[str, Any] = {
    "python": "/root/venv/bin/python",
    "pythons": [
        {"path": "/root/venv/bin/python", "version": "3.12.3", "torch": "2.11.0", "environment": True},
        {"path": "/usr/bin/python3", "version": "3.11.2", "torch": None, "environment": False},
    ],
    "root": "/root",
    "root_reason": "train.py is there",
    "init": "systemd",
    "gpu_summary": "2 of 2 idle, 0 MiB each, no holder",
    "files": 2,
    "total_bytes": 18_000,
    "name": "dflash",
    "left_out": {"bytecode": 2},
    "big": [{"path": "data", "bytes": 4_100_000_000, "files": 12, "exclude": "./data"}],
    "problems": [],
    "warnings": [],
}
RELEASE: dict[str, Any] = {"summary": "7c1e09a would go live at /root, 1 added, 1 changed", "failed": False}
FOUND = Found(read_target("root@10.1.2.6:2222/200"), "scripts", Reason.OK, "", NODE, SURVEY, RELEASE)


def loaded(found: Found) -> Any:
    return yaml.safe_load(files(found)["inventory.yml"])


def test_the_inventory_says_what_was_found() -> None:
    assert loaded(FOUND) == {
        "training": {
            "hosts": {
                "ct200": {
                    "ansible_host": "10.1.2.6",
                    "ansible_user": "root",
                    "ansible_port": 2222,
                    "proxmox_vmid": 200,
                }
            },
            "vars": {
                "ansible_connection": "trainops.proxmox.pct",
                "training_project": "scripts",
                "training_root": "/root",
                "training_python": "/root/venv/bin/python",
                "training_exclude": ["./data"],
            },
        }
    }
    text = files(FOUND)["inventory.yml"]
    assert "# the node (pve1), not the container" in text
    assert "# 3.12.3, torch 2.11.0" in text


@pytest.mark.parametrize(
    ("names", "proposed"),
    [
        ((), "train.py"),
        (("main.py",), "main.py"),
        (("model.py", "train_big.py"), "train_big.py"),
        (("a_train.py", "model.py"), "a_train.py"),
        (("train.py", "train_b.py"), "train.py"),
        (("train_a.py", "train_b.py"), "train.py"),
        (("yes: no.py",), "'yes: no.py'"),
    ],
)
def test_the_script_to_launch_is_proposed_as_a_comment(names: tuple[str, ...], proposed: str) -> None:
    text = files(replace(FOUND, scripts=names))["inventory.yml"]
    assert f"    # training_script: {proposed} # what trainops launch runs" in text
    assert "training_script" not in loaded(replace(FOUND, scripts=names))["training"]["vars"]


@pytest.mark.parametrize("path", ["a: b", "# x", "ümlaut dir", "- x", "yes", "123", "'"])
def test_any_path_survives_the_inventory(path: str) -> None:
    assert loaded(replace(FOUND, project=path))["training"]["vars"]["training_project"] == path
    assert loaded(replace(FOUND, project=[path, "b"]))["training"]["vars"]["training_project"] == [path, "b"]


def test_a_container_without_python_leaves_the_line_to_the_user() -> None:
    found = replace(FOUND, survey={**SURVEY, "python": None, "pythons": []}, release=None)
    assert "training_python" not in loaded(found)["training"]["vars"]
    assert "# training_python:" in files(found)["inventory.yml"]
    assert "python      none was found" in report(found, [])


def test_the_report_fits_80_columns() -> None:
    text = report(FOUND, ["inventory.yml"])
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines() == [
        "node        pve1 at 10.1.2.6, Proxmox VE 9.2.11; root may enter containers by",
        "              lxc-attach, pct",
        "gpus        2 x NVIDIA H200, 143771 MiB",
        "            2 of 2 idle, 0 MiB each, no holder",
        "container   200 train-a, systemd; GPUs: 2 of 2 idle, 0 MiB each, no holder",
        "python      /root/venv/bin/python  3.12.3  torch 2.11.0",
        "            /usr/bin/python3       3.11.2  no torch",
        "root        /root: train.py is there",
        "project     scripts: 2 files, 18 kB, called dflash",
        "left out    2 bytecode",
        "too big     data: 4.1 GB in 12 files",
        "deploy      7c1e09a would go live at /root, 1 added, 1 changed",
        "wrote       inventory.yml",
        "next        trainops deploy",
    ]


def test_without_a_container_the_report_lists_them() -> None:
    found = Found(read_target("root@10.1.2.6"), ".", Reason.OK, "", NODE, None, None)
    assert not found.ready
    lines = report(found, []).splitlines()
    assert "             200  running  train-a  0, 1" in lines
    assert lines[-1] == "next        trainops init root@10.1.2.6/VMID"


@pytest.mark.parametrize("release", [None, {"failed": True, "summary": "/root/train.py belongs to project x"}])
def test_what_would_be_refused_is_not_the_next_step(release: dict[str, Any] | None) -> None:
    text = report(replace(FOUND, release=release), [])
    assert text.splitlines()[-1] == "next        settle what is refused, then: trainops deploy"
    assert "refused: /root/train.py belongs to project x" in text or release is None


DEPLOY = """\
- hosts: training
  gather_facts: false
  tasks:
    - trainops.proxmox.training_release:
        {project: "{{ project }}", root: "{{ root }}", python: "{{ ansible_playbook_python }}", name: "{{ name }}"}
      check_mode: true
      ignore_errors: true
"""


@pytest.mark.parametrize(
    ("name", "deploy", "next_step"),
    [
        ("mine", "/train.py belongs to project other, and", "settle what is refused, then: trainops deploy"),
        ("..", "'..' cannot be", "settle what is refused, then: trainops deploy"),
        ("{{ nothing }}", "'nothing' is undefined", "settle what is refused, then: trainops deploy"),
        ("other", "would go live at", "trainops deploy"),
    ],
)
def test_what_ansible_tells_of_a_refusal_is_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, deploy: str, next_step: str
) -> None:
    """It is run here as the survey does it, errors ignored, and by a worker on this machine."""
    root, project = tmp_path / "root", tmp_path / "project"
    for folder in (root, project):
        folder.mkdir()
    (project / "train.py").write_text("print(2)\n")
    releasing.deploy(root, {"train.py": "print(1)\n"}, name="other")
    write(FOUND, tmp_path)
    (tmp_path / "deploy.yml").write_text(DEPLOY.replace("{{ name }}", name))
    given = {"ansible_connection": "local", "project": str(project), "root": str(root)}
    result = run_playbook("deploy.yml", cwd=tmp_path, extravars=given)
    monkeypatch.setattr(starting, "run_playbook", lambda *_words, **_options: result)
    found = survey("root@10.1.2.6/200")
    told = " ".join(report(replace(found, node=NODE, survey=SURVEY), []).split())
    assert f"deploy {'' if name == 'other' else 'refused: '}" in told
    assert deploy in told
    assert told.endswith(f" next {next_step}")
    assert found.reason is Reason.OK


def test_a_failure_is_the_last_word() -> None:
    found = Found(read_target("root@10.1.2.6/200"), ".", Reason.UNREACHABLE, "it does not answer", None, None, None)
    assert report(found, []) == "failed      it does not answer"


def test_files_are_written_once_and_never_over_others(tmp_path: Path) -> None:
    assert write(FOUND, tmp_path) == ["inventory.yml", "ansible.cfg", "deploy_training.yml"]
    assert write(FOUND, tmp_path) == []
    (tmp_path / "inventory.yml").write_text("mine: {}\n")
    (tmp_path / "ansible.cfg").unlink()
    with pytest.raises(
        FileExists, match=r"inventory\.yml of this folder has other content, nothing was written"
    ) as told:
        write(FOUND, tmp_path)
    assert str(told.value).splitlines()[2:] == [
        "    ct200:",
        "      ansible_host: 10.1.2.6 # the node (pve1), not the container",
        "      ansible_user: root",
        "      ansible_port: 2222",
        "      proxmox_vmid: 200",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deploy_training.yml", "inventory.yml"]
    assert write(FOUND, tmp_path, force=True) == ["inventory.yml", "ansible.cfg"]
    assert loaded(FOUND) == yaml.safe_load((tmp_path / "inventory.yml").read_text())


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").mkdir()
    with pytest.raises(FileExists, match=r"ansible\.cfg cannot be read: Is a directory"):
        write(FOUND, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ansible.cfg"]


@pytest.mark.parametrize(
    ("target", "options", "error"),
    [
        ("root@", {}, WrongTarget),
        ("root@127.0.0.1/200:/a", {"root": "/b"}, ProjectNotFound),
        ("root@127.0.0.1/200", {"projects": ["/no/such/folder"]}, ProjectNotFound),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(
    target: str, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        survey(target, **options)


@pytest.mark.parametrize("name", ["we{#a#}ight.bin", "{{ 7*7 }}.bin"])
def test_braces_in_a_name_are_no_template_of_the_inventory(tmp_path: Path, name: str) -> None:
    big = [{"path": name, "bytes": 120_000_000, "files": 1, "exclude": f"./{name}"}]
    write(replace(FOUND, survey={**SURVEY, "big": big}), tmp_path)
    (tmp_path / "say.yml").write_text(
        "- {hosts: training, gather_facts: false, tasks: [{ansible.builtin.debug: {msg: '{{ training_exclude }}'}}]}\n"
    )
    result = run_playbook("say.yml", cwd=tmp_path, extravars={"ansible_connection": "local"})
    assert result.hosts["ct200"].steps[0].values["msg"] == [f"./{name}"]


NASTY = [
    f"2.1{end}    training_name: \"{{{{ lookup('pipe', 'touch evil') }}}}\"{end}x: y"
    for end in ("\n", "\r", "\r\n", "\x85", "\u2028", "\u2029", "\x0b", "\t", "\0", "\ufeff", "\udc85")
]
NASTY += ["' # \" x", "}} {{ 1 }}", "# x", ": ", "#jinja2:variable_start_string:'[%'\n[% 7 %]", "x" * 20_000]


def with_texts(text: str) -> Found:
    """What a survey would be if nothing had looked at the container's texts before."""
    pythons = [{"path": f"/p{text}", "version": text, "torch": text, "environment": True}]
    big = [{"path": text, "bytes": 5, "files": 1, "exclude": text}]
    seen = {**SURVEY, "python": f"/p{text}", "pythons": pythons, "root": f"/r{text}", "big": big}
    return replace(FOUND, project=text, node={**NODE, "node": text}, survey=seen)


@pytest.mark.parametrize("text", NASTY)
def test_no_text_of_a_container_is_more_than_a_value_or_a_comment(tmp_path: Path, text: str) -> None:
    class Loader(yaml.SafeLoader):
        """Knows values that are no templates."""

    Loader.add_constructor("!unsafe", lambda _loader, node: node.value)
    write(with_texts(text), tmp_path)
    written = (tmp_path / "inventory.yml").read_text(encoding="utf-8")
    told = yaml.load(written, Loader)
    group = told.pop("training")
    assert told == {}
    assert group == {
        "hosts": {
            "ct200": {
                "ansible_host": "10.1.2.6",
                "ansible_user": "root",
                "ansible_port": 2222,
                "proxmox_vmid": 200,
            }
        },
        "vars": {
            "ansible_connection": "trainops.proxmox.pct",
            "training_project": text,
            "training_root": f"/r{text}",
            "training_python": f"/p{text}",
            "training_exclude": [text],
        },
    }
    assert len(written.splitlines()) == len(files(FOUND)["inventory.yml"].splitlines())


def test_no_text_of_a_container_is_a_template(tmp_path: Path) -> None:
    marker = tmp_path / "evil"
    text = f"\n    training_name: \"{{{{ lookup('pipe', 'touch {marker}') }}}}\""
    write(with_texts(text), tmp_path)
    (tmp_path / "say.yml").write_text(
        "- hosts: training\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.debug:\n        msg: '{{ [training_root, training_name | default(\"none\")] }}'\n"
    )
    result = run_playbook("say.yml", cwd=tmp_path, extravars={"ansible_connection": "local"})
    assert result.hosts["ct200"].steps[0].values["msg"] == [f"/r{text}", "none"]
    assert not marker.exists()


@pytest.mark.parametrize("text", NASTY)
def test_the_report_has_a_label_before_each_of_its_lines(text: str) -> None:
    plain, odd = report(FOUND, []).splitlines(), report(with_texts(text), []).splitlines()
    labels = {line.split()[0] for line in plain if line[:1].strip()}
    assert {line.split()[0] for line in odd if line[:1].strip()} == labels


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_an_odd_file_in_the_way_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "inventory.yml"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    with pytest.raises(FileExists, match="remove it, then run again"):
        write(FOUND, tmp_path, force=True)
