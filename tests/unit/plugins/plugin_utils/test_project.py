# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a project: what ships under which name, what is left out, what is refused, and what git says of it."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils import project as module
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import OptionError, SourceChanged
from ansible_collections.trainops.proxmox.plugins.plugin_utils.git import WorkTree, parse_status
from ansible_collections.trainops.proxmox.plugins.plugin_utils.left_out import left_out
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project import (
    Project,
    project_name,
    read_bytes,
    read_project,
)
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project_limits import Limits, read_size
from ansible_collections.trainops.proxmox.plugins.plugin_utils.project_walk import LONGEST_PATH

from tests.unit.releasing import write


def read(spec: Any, cwd: Path, **more: Any) -> Project:
    return read_project(spec, more.pop("exclude", []), str(cwd), **more)


def shipped(project: Project) -> dict[str, str]:
    return {entry.path: entry.type for entry in project.files}


def test_a_folder_means_what_is_in_it(tmp_path: Path) -> None:
    write(tmp_path, {"dflash/scripts/train.py": "1", "dflash/scripts/pkg/m.py": "2"})
    (tmp_path / "dflash/scripts/hollow").mkdir()
    found = read("dflash/scripts", tmp_path)
    assert shipped(found) == {"train.py": "file", "pkg": "dir", "pkg/m.py": "file", "hollow": "dir"}
    assert found.name == "dflash"
    assert found.files[-1].source == str(tmp_path / "dflash/scripts/train.py")
    assert found.release_id == read(str(tmp_path / "dflash/scripts/"), Path("/")).release_id


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ("a/x.py", {"x.py"}),
        (["a", "b"], {"x.py", "deep", "deep/y.py", "z.py"}),
        ([{"src": "a", "dest": "lib/a"}], {"lib", "lib/a", "lib/a/x.py", "lib/a/deep", "lib/a/deep/y.py"}),
        (["b", {"src": "a/x.py", "dest": "tools/run.py"}], {"z.py", "tools", "tools/run.py"}),
        (["b", {"src": "a/x.py", "dest": "tools/"}], {"z.py", "tools", "tools/x.py"}),
        ({"src": "b", "dest": "./b"}, {"b", "b/z.py"}),
    ],
)
def test_destinations(tmp_path: Path, spec: Any, paths: set[str]) -> None:
    write(tmp_path, {"a/x.py": "1", "a/deep/y.py": "2", "b/z.py": "3"})
    assert set(shipped(read(spec, tmp_path))) == paths


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("/data/dflash/scripts", "dflash"),
        ("/data/dflash/src/", "dflash"),
        ("/data/dflash", "dflash"),
        ("proj", "proj"),
        (".", "here"),
        ("/data/dflash/code/train.py", "dflash"),
        ([{"src": "/data/x-1"}, "/data/y"], "x-1"),
    ],
)
def test_the_name_comes_from_the_folder_even_when_it_is_not_here(tmp_path: Path, spec: Any, name: str) -> None:
    here = tmp_path / "here"
    here.mkdir()
    assert project_name(spec, str(here)) == name


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("missing", "missing: No such file or directory: correct it"),
        ([], "option project: it is empty"),
        ("", "is no path"),
        ([3], "3 is no path"),
        ([{"src": "a", "to": "b"}], "an entry has src and, if wanted, dest"),
        ([{"src": "a", "dest": "/abs"}], "must be a relative path"),
        ([{"src": "a", "dest": "x/../../y"}], "must be a relative path"),
        ([{"src": "a", "dest": ".trainops/x"}], "must be a relative path"),
        (["a", {"src": "b", "dest": "x.py"}], "clash: x.py would be file and folder"),
        (["a", {"src": "b/z.py", "dest": "x.py"}], "clash: both would be x.py"),
        ("only_left_out", "there is no file to release (1 left out, e.g. ansible.cfg: Ansible's settings)"),
        ("empty", "there is no file to release: correct it or option exclude"),
        ("a b", "cannot be a project's name: set option name"),
        ("/dev/null", "/dev/null is a device: remove it, or leave it out"),
    ],
)
def test_what_cannot_be_a_project(tmp_path: Path, spec: Any, words: str) -> None:
    write(tmp_path, {"a/x.py": "1", "b/z.py": "3", "only_left_out/ansible.cfg": "", "a b/x": "1"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(OptionError) as refused:
        read(spec, tmp_path)
    assert words in str(refused.value)


def test_all_that_cannot_ship_is_named_at_once(tmp_path: Path) -> None:
    write(tmp_path, {"p/a.py": "1", "p/deep/b.py": "2"})
    os.mkfifo(tmp_path / "p/pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "p/sock"))
    (tmp_path / "p/data").symlink_to("/mnt/data")
    (tmp_path / "p/deep/up").symlink_to("../../other")
    with pytest.raises(OptionError) as refused:
        read("p", tmp_path)
    text = str(refused.value)
    for words in (
        "p/pipe is a named pipe",
        "p/sock is a socket",
        "p/data is a link out of the project (to /mnt/data)",
        "p/deep/up is a link out of the project (to ../../other)",
        "training_exclude",
        "training_shared",
    ):
        assert words in text
    assert shipped(read("p", tmp_path, exclude=["pipe", "sock", "up"], shared=["data"])) == {
        "a.py": "file",
        "data": "shared",
        "deep": "dir",
        "deep/b.py": "file",
    }


def test_many_problems_are_counted_in_the_first_line_and_cut(tmp_path: Path) -> None:
    write(tmp_path, {"p/a.py": "1"})
    for number in range(30):
        (tmp_path / "p" / f"l{number:02}").symlink_to("/mnt/data")
    with pytest.raises(OptionError) as refused:
        read("p", tmp_path)
    lines = str(refused.value).splitlines()
    assert lines[0].startswith(f"this project cannot be released: {tmp_path}/p/l00 is a link out of the project")
    assert lines[0].endswith(" (and 29 more)")
    assert (len(lines), lines[-1]) == (21, "… and 10 more")


def test_unreadable_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"p/a.py": "1", "p/b.py": "2"})
    really_open = os.open

    def refuse(path: str, *args: Any, **more: Any) -> int:
        if str(path).endswith("b.py"):  # root, who runs the tests for the lab, may read every real file
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return really_open(path, *args, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OptionError, match=r"b\.py: Permission denied: make it readable"):
        read("p", tmp_path)


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder of a user for whom modes count, who the test is meanwhile."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o777)
        me = os.geteuid()
        if me == 0:
            os.seteuid(65534)
        try:
            yield Path(place)
        finally:
            os.seteuid(me)


def test_unreadable_files_and_folders_are_named_at_once(nobody: Path) -> None:
    closed = [f"p/{name}" for name in ("a.py", "deep/b.py", "shut", "deep/too")]
    write(nobody, {"p/a.py": "1", "p/deep/b.py": "2", "p/fine.py": "3", "p/shut/c": "", "p/deep/too/d": ""})
    for path in closed:
        (nobody / path).chmod(0)
    with pytest.raises(OptionError) as refused:
        read("p", nobody)
    measured = module.measure_project("p", [], str(nobody))
    for path in closed:
        (nobody / path).chmod(0o700)
        line = f"{nobody}/{path}: Permission denied: make it readable, or leave it out with training_exclude"
        assert line in str(refused.value)
        assert line in measured.problems
    assert len(measured.problems) == len(closed)


def test_links_inside_are_kept(tmp_path: Path) -> None:
    write(tmp_path, {"p/a.py": "1", "p/deep/b.py": "2"})
    (tmp_path / "p/latest").symlink_to("deep/b.py")
    (tmp_path / "p/deep/up").symlink_to("../a.py")
    targets = {entry.path: entry.target for entry in read("p", tmp_path).files if entry.type == "link"}
    assert targets == {"latest": "deep/b.py", "deep/up": "../a.py"}


def test_links_to_what_is_left_out_are_told_but_not_those_to_shared_names(tmp_path: Path) -> None:
    write(tmp_path, {"p/a.py": "1", "p/deep/b.py": "2", "p/old/x/c.pt": "3", "p/.env": "4", "p/out/d": "5"})
    for link, target in {
        "model": "old/x/c.pt",
        "deep/all": "../old/x",
        "keys": ".env",
        "here": "a.py",
        "results": "out/d",
    }.items():
        (tmp_path / "p" / link).symlink_to(target)
    found = read(["p"], tmp_path, exclude=["old"], shared=["out"])
    told = [f"{tmp_path}/p/{link} will lead nowhere in the container" for link in ("deep/all", "keys", "model")]
    assert [warning.partition(":")[0] for warning in found.warnings] == told
    assert "a link to old, which is left out (excluded by old)" in found.warnings[0]
    assert read([{"src": "p", "dest": "lib"}], tmp_path, exclude=["old"], shared=["out"]).warnings == found.warnings


def test_links_that_lead_nowhere_here_as_well_are_told(tmp_path: Path) -> None:
    write(tmp_path, {"p/a.py": "1", "p/deep/b.py": "2", "cfg/x": "3"})
    (tmp_path / "data").mkdir()
    (tmp_path / "p/data").symlink_to("../data")
    for link, target in {
        "broken": "nowhere",
        "deep/broken": "../deep/nowhere/at all",
        "next": "broken",
        "round": "round",
        "fine": "next_fine",
        "next_fine": "deep/b.py",
        "top": ".",
        "latest": "data/latest",
        "results": "out/r1",
        "to_out": "out",
        "through": "to_out/r1",
        "conf": "configs/x",  # from the other folder
    }.items():
        (tmp_path / "p" / link).symlink_to(target)
    spec = ["p", {"src": "cfg", "dest": "configs"}]
    found = read(spec, tmp_path, shared=["data", "out"])
    told = {warning.partition(" is a link to ")[0].removeprefix(f"{tmp_path}/p/") for warning in found.warnings}
    assert told == {"broken", "deep/broken", "next", "round"}
    assert found.warnings[0].startswith(f"{tmp_path}/p/broken is a link to nowhere and leads nowhere, here as well: ")
    told_more = len(read(spec, tmp_path, shared=["data"]).warnings)
    assert told_more == len(told) + len(["results", "to_out", "through"])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(0o644, 0o644), (0o664, 0o644), (0o600, 0o600), (0o755, 0o755), (0o775, 0o755), (0o700, 0o700), (0o4711, 0o755)],
)
def test_modes_mean_private_or_not_and_program_or_not(tmp_path: Path, mode: int, expected: int) -> None:
    write(tmp_path, {"p/a": "1"})
    (tmp_path / "p/a").chmod(mode)
    assert read("p", tmp_path).files[0].mode == expected


FILE, FOLDER, PROGRAM = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755


@pytest.mark.parametrize(
    ("path", "kind", "why"),
    [
        ("train.py", FILE, None),
        (".git", FOLDER, "version control"),
        ("sub/.git", FILE, "version control"),
        (".gitignore", FILE, "version control"),
        ("pkg/__pycache__", FOLDER, "bytecode"),
        ("m.pyc", FILE, "bytecode"),
        ("deep/.env", FILE, "secrets"),
        (".env.production", FILE, "secrets"),
        ("environment.yml", FILE, None),
        ("a.py~", FILE, "editor backup"),
        (".a.py.swp", FILE, "editor backup"),
        ("ansible.cfg", FILE, "Ansible's settings"),
        ("deep/ansible.cfg", FILE, None),
        ("inventory.yml", FILE, "inventory"),
        ("inventory_lab.ini", FILE, "inventory"),
        ("inventory", FOLDER, "inventory"),
        ("inventory.py", FILE, None),
        ("inventory.py", PROGRAM, "inventory"),
        ("deep/inventory.yml", FILE, "inventory"),
        ("deep/hosts.ini", FILE, "inventory"),
        ("deep/group_vars", FOLDER, "inventory"),
        ("deep/inventory_size.py", FILE, None),
        ("deep/deploy_training.yml", FILE, None),
        ("hosts", FILE, "inventory"),
        ("hosts.py", FILE, None),
        ("group_vars", FOLDER, "inventory"),
        ("deploy_training.yml", FILE, "playbook"),
        ("rollback_training.yaml", FILE, "playbook"),
        ("training_logs.yml", FILE, "playbook"),
        ("why_training.py", FILE, None),
        ("train.yml", FILE, None),
        ("notes.ipynb", FILE, "excluded by *.ipynb"),
        ("deep/notes.ipynb", FILE, "excluded by *.ipynb"),
        ("out", FOLDER, "excluded by out/"),
        ("deep/out", FOLDER, "excluded by out/"),
        ("out", FILE, None),
        ("conf/local/a.yml", FILE, "excluded by conf/local/*"),
        ("conf/b.yml", FILE, None),
        ("root_only", FILE, "excluded by ./root_only"),
    ],
)
def test_what_is_left_out(path: str, kind: int, why: str | None) -> None:
    info = os.stat_result((kind, *[0] * 9))
    assert left_out(path, info, ["*.ipynb", "out/", "conf/local/*", "./root_only"]) == why


SECRETS = [
    ".netrc",
    "deep/.netrc",
    ".ssh/config",
    ".aws/credentials",
    ".kube/config",
    ".gnupg/pubring.kbx",
    "a.env",
    "deep/PROD.ENV",
    ".env",
    "secrets.yml",
    "Secrets.TOML",
    "deep/secrets.json",
    "id_rsa",
    "id_rsa.pub",
    "id_ed25519",
    "id_ed25519_work",
    "id_ecdsa",
    "id_ecdsa.bak",
    "server.pem",
    "SERVER.PEM",
    "deep/tls.key",
    ".vault_pass",
    ".vault_password.txt",
    "my_vault_pass.sh",
    ".git-credentials",
    ".pypirc",
    ".npmrc",
    ".docker/config.json",
    "deep/.docker/config.json",
    ".config/gcloud/credentials.db",
    "kaggle.json",
    ".cache/huggingface/token",
]
NO_SECRETS = [
    "environment.yml",
    "env.py",
    "key.py",
    "keys.txt",
    "pem/readme",
    "vault.py",
    "secret_sauce.py",
    "secrets.py",
    "deep/id_rsa_tools.py",
    "tokenizer.json",
    "docker/config.json",
    "config.json",
    ".cache/huggingface/hub/x",
    "id.py",
    "rsa.py",
    "netrc.py",
]


def test_secrets_are_never_shipped(tmp_path: Path) -> None:
    write(tmp_path / "p", {**dict.fromkeys(SECRETS, "hush"), **dict.fromkeys(NO_SECRETS, "1")})
    found = read("p", tmp_path)
    files = {entry.path for entry in found.files if entry.type == "file"}
    assert files == set(NO_SECRETS)
    why = dict(found.ignored)
    assert {what for path, what in why.items()} == {"secrets"}
    assert all(any(path == one or path.startswith(one + "/") for one in why) for path in SECRETS)
    with pytest.raises(OptionError, match="no file to release"):
        read("p/server.pem", tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "private key"),
        ("-----BEGIN PRIVATE KEY-----\n", "private key"),
        ("\n-----BEGIN RSA PRIVATE KEY-----\n", "private key"),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "private key"),
        ("PuTTY-User-Key-File-3: ssh-ed25519\n", "private key"),
        ("$ANSIBLE_VAULT;1.2;AES256;dev\n", "vault"),
        ("-----BEGIN CERTIFICATE-----\n", None),
        ("BEGIN = '-----BEGIN PRIVATE KEY-----'\n", None),
    ],
)
def test_private_keys_and_vaults_are_known_by_their_content(tmp_path: Path, text: str, why: str | None) -> None:
    write(tmp_path, {"p/a.py": "1", "p/deploy_me": text})
    assert dict(read("p", tmp_path).ignored).get("deploy_me") == why


def test_a_package_called_inventory_is_the_projects(tmp_path: Path) -> None:
    write(tmp_path, {"p/shop/inventory/__init__.py": "", "p/other/inventory/lab": "all:"})
    found = read("p", tmp_path)
    assert "shop/inventory/__init__.py" in shipped(found)
    assert found.ignored == [("other/inventory", "inventory")]


def test_folders_whose_files_are_left_out_ship_empty(tmp_path: Path) -> None:
    write(tmp_path, {"p/a.py": "1", "p/data/.gitkeep": "", "p/conf/.env": "X=1"})
    assert shipped(read("p", tmp_path)) == {"a.py": "file", "data": "dir", "conf": "dir"}


def test_environments_vaults_and_reasons(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "p/a.py": "1",
            "p/env/pyvenv.cfg": "home = /usr",
            "p/env/bin/python": "",
            "p/conda/conda-meta/history": "",
            "p/passwords.yml": "$ANSIBLE_VAULT;1.1;AES256\n3166\n",
            "p/data/big": "1",
        },
    )
    found = read("p", tmp_path, shared=["data/"])
    assert shipped(found) == {"a.py": "file", "data": "shared"}
    assert found.ignored == [
        ("conda", "virtual environment"),
        ("data", "shared"),
        ("env", "virtual environment"),
        ("passwords.yml", "vault"),
    ]


@pytest.mark.parametrize("name", ["", "a/b", "..", ".trainops"])
def test_shared_names_are_single_names(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"p/a.py": "1"})
    with pytest.raises(OptionError, match="must be a single name"):
        read("p", tmp_path, shared=[name])


def test_any_bytes_in_names(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "p")
    os.mkdir(folder)
    for name in (b"\xff\xfe", b"new\nline", "é".encode()):
        with open(folder + b"/" + name, "wb") as stream:
            stream.write(b"1")
    found = read("p", tmp_path)
    assert {os.fsencode(entry.path) for entry in found.files} == {b"\xff\xfe", b"new\nline", "é".encode()}
    assert len(found.release_id) == 64


def test_bytes_that_changed_are_noticed(tmp_path: Path) -> None:
    write(tmp_path, {"p/a": "one", "p/b": "two", "p/c": "three"})
    a, b, c = read("p", tmp_path).files
    assert b"".join(read_bytes(a)) == b"one"
    write(tmp_path, {"p/a": "ONE", "p/b": "two and more"})
    (tmp_path / "p/c").unlink()
    for entry, words in ((a, "a changed after it was read"), (b, "b changed after"), (c, "c changed after")):
        with pytest.raises(SourceChanged, match=words):
            list(read_bytes(entry))


def test_a_file_that_never_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"p/log": "x"})
    real, calls = os.fstat, iter(range(100))

    def fstat(fd: int) -> os.stat_result:
        with (tmp_path / "p/log").open("a") as stream:
            stream.write(str(next(calls)))
        return real(fd)

    monkeypatch.setattr(module.os, "fstat", fstat)
    with pytest.raises(SourceChanged, match="keeps changing while it is read"):
        read("p", tmp_path)


# What is taken for a mistake


def test_a_surprising_size_is_refused_by_a_walk_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"p/train.py": "1", **{f"p/ckpt/step 1/{name}": "" for name in "abcd"}})
    for name in "abcd":
        os.truncate(tmp_path / "p/ckpt/step 1" / name, 1 << 40)
    monkeypatch.setattr(module, "_open", lambda _source: pytest.fail("it was read"))
    with pytest.raises(OptionError) as refused:
        read("p", tmp_path, limits=Limits(500 * 10**6, 5000))
    assert str(refused.value) == (
        "this project has 4398 GB in 5 files, more than option max_size allows (500 MB). The largest: ckpt/step 1 "
        "(4398 GB in 4 files). Leave out what is no code (training_exclude: ['./ckpt/step 1']), name in "
        "training_shared what the container has of its own, or allow it: option max_size: 4399GB "
        "(trainops deploy --max-size 4399GB)"
    )
    pattern = "./ckpt/step 1"
    monkeypatch.undo()
    assert set(shipped(read("p", tmp_path, limits=Limits(500), exclude=[pattern]))) == {"train.py", "ckpt"}
    assert read("p", tmp_path, limits=Limits(0, 3), shared=["ckpt"]).files


@pytest.mark.parametrize(("most", "refused"), [(12, False), (0, False), (11, True)])
def test_many_files_are_refused_too(tmp_path: Path, most: int, refused: bool) -> None:
    write(tmp_path, {"p/train.py": "1", **{f"p/data/x{number}": "1" for number in range(11)}})
    if not refused:
        assert len(read("p", tmp_path, limits=Limits(0, most)).files) == 13
        return
    with pytest.raises(OptionError) as error:
        read("p", tmp_path, limits=Limits(0, most))
    assert "12 B in 12 files, more than option max_files allows (11). The largest: data (11 B in 11" in str(error.value)
    assert "option max_files: 12 (trainops deploy --max-files 12)" in str(error.value)


def test_a_walk_ends_when_the_answer_is_clear(tmp_path: Path) -> None:
    write(tmp_path, {f"p/d{number:03}/{name}": "1" for number in range(200) for name in "xyz"})
    with pytest.raises(OptionError) as error:
        read("p", tmp_path, limits=Limits(0, 20))
    assert "at least 402 B in 402 files" in str(error.value)
    assert "The largest: " in str(error.value)
    assert "option max_files: 0" in str(error.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("500MB", 500 * 10**6),
        ("2 GB", 2 * 10**9),
        ("1.5GiB", 3 << 29),
        ("10kb", 10_000),
        ("1 kib", 1024),
        ("17", 17),
        ("0", 0),
        ("3tb", 3 * 10**12),
        ("0.4", 1),  # no limit is 0 alone
        ("0.0", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1", "1 XB", "1e9", "ten MB", "nan", "1.GB", "1" + "0" * 400 + "MB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(OptionError, match=r"option max_size: .* is no size: write it as 500MB"):
        read_size(text)


# Names and places that Linux allows


def test_paths_that_no_container_could_reach_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    write(tmp_path, {"p/a.py": "1"})
    folder = os.open(tmp_path / "p", os.O_RDONLY)
    for _level in range(25):  # 5,000 bytes: longer than any path that can be opened
        os.mkdir("n" * 200, dir_fd=folder)
        below = os.open("n" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    with pytest.raises(OptionError) as refused:
        read("p", tmp_path)
    said = str(refused.value)
    assert f"its path in the release has 3617 bytes, and no more than {LONGEST_PATH} can be reached" in said
    assert len(said) < 1000
    assert shipped(read("p", tmp_path, exclude=["n" * 200])) == {"a.py": "file"}


def test_a_link_that_leaves_the_project_through_another_link(tmp_path: Path) -> None:
    write(tmp_path, {"secret": "s", "p/a.py": "1", "p/deep/er/b.py": "2"})
    (tmp_path / "p/deep/er/top").symlink_to("../..")
    (tmp_path / "p/leak").symlink_to("deep/er/top/../secret")  # by its words deep/er/secret
    with pytest.raises(OptionError, match=r"p/leak is a link out of the project \(to deep/er/top/\.\./secret\)"):
        read("p", tmp_path)
    (tmp_path / "p/leak").unlink()
    (tmp_path / "data").mkdir()
    (tmp_path / "p/data").symlink_to("../data")
    (tmp_path / "p/latest").symlink_to("data/latest")  # the container has a folder data of its own
    (tmp_path / "p/round").symlink_to("round")
    links = {entry.path for entry in read("p", tmp_path, shared=["data"]).files if entry.type == "link"}
    assert links == {"deep/er/top", "latest", "round"}


def test_a_file_that_is_named_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path, {"real/train_v2.py": "2", "p/x": ""})
    (tmp_path / "p/train.py").symlink_to("../real/train_v2.py")
    (entry,) = read("p/train.py", tmp_path).files
    assert (entry.path, entry.type, b"".join(read_bytes(entry))) == ("train.py", "file", b"2")


def test_names_in_messages_are_one_line_of_what_a_terminal_shows(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "p")
    os.mkdir(folder)
    os.mkfifo(folder + b"/new\nline\x1b[2J\xff")
    with pytest.raises(OptionError) as refused:
        read("p", tmp_path)
    assert str(refused.value).endswith(
        "p/new\\nline\\x1b[2J\\xff is a named pipe: remove it, or leave it out with training_exclude"
    )


def test_nothing_may_be_called_as_our_own_folder(tmp_path: Path) -> None:
    write(tmp_path, {"p/a.py": "1", "p/.trainops": "x"})
    found = read("p", tmp_path)
    assert (shipped(found), found.ignored) == ({"a.py": "file"}, [(".trainops", "releases")])


# Sources that change


def after_the_walk(monkeypatch: pytest.MonkeyPatch, *changes: Callable[[], object]) -> None:
    """Have one change happen after each walk and before anything of it is read."""
    waiting: list[Callable[[], object]] = list(changes)
    real = module._let_the_clock_tick

    def tick(walk: Any) -> None:
        real(walk)
        if waiting:
            waiting.pop(0)()

    monkeypatch.setattr(module, "_let_the_clock_tick", tick)


def replaced(path: Path, by: Callable[[Path], object]) -> Callable[[], None]:
    def change() -> None:
        path.unlink()
        by(path)

    return change


CHANGES: dict[str, tuple[Callable[[Path], object], bytes | None]] = {
    "other bytes of the same size": (lambda path: path.write_text("TWO"), b"TWO"),
    "grown": (lambda path: path.write_text("two and more"), b"two and more"),
    "truncated": (lambda path: os.truncate(path, 0), b""),
    "gone": (lambda path: path.unlink(), None),
    "renamed": (lambda path: path.rename(path.with_name("other.py")), None),
    "another file": (lambda path: replaced(path, lambda new: new.write_text("new"))(), b"new"),
    "touched": (lambda path: os.utime(path), b"two"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    write(tmp_path, {"p/a.py": "one", "p/pkg/b.py": "two", "p/pkg/c.py": "three"})
    what, expected = CHANGES[change]
    after_the_walk(monkeypatch, lambda: what(tmp_path / "p/pkg/b.py"))
    found = {entry.path: b"".join(read_bytes(entry)) for entry in read("p", tmp_path).files if entry.type == "file"}
    assert found.get("pkg/b.py") == expected
    assert found["a.py"] == b"one"
    assert ("pkg/other.py" in found) is (change == "renamed")
    for entry in read("p", tmp_path).files:
        if entry.type == "file":
            assert entry.sha256 == hashlib.sha256(found[entry.path]).hexdigest()


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (os.mkfifo, "b.py is a named pipe"),
        (os.mkdir, None),
        (lambda path: path.symlink_to("/etc/hostname"), "b.py is a link out of the project"),
        (lambda path: path.symlink_to("a.py"), None),
    ],
)
def test_what_takes_a_files_place_while_it_is_read_is_never_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: Callable[[Path], object], words: str | None
) -> None:
    write(tmp_path, {"p/a.py": "one", "p/b.py": "two"})
    after_the_walk(monkeypatch, replaced(tmp_path / "p/b.py", by))
    if words is None:
        assert {entry.type for entry in read("p", tmp_path).files} in ({"file", "dir"}, {"file", "link"})
        return
    with pytest.raises(OptionError, match=words):
        read("p", tmp_path)


@pytest.mark.parametrize("by", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("a.py"), lambda path: None])
def test_what_takes_a_files_place_before_it_is_sent_is_noticed(tmp_path: Path, by: Callable[[Path], object]) -> None:
    write(tmp_path, {"p/a.py": "", "p/b.py": ""})
    found = read("p", tmp_path)
    replaced(tmp_path / "p/b.py", by)()
    with pytest.raises(SourceChanged, match=r"p/b\.py"):
        list(read_bytes(found.files[1]))


def test_two_files_are_never_of_two_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is read, then both change as a checkout changes them: a release has both old or both new."""
    write(tmp_path, {"p/model.py": "old", "p/train.py": "old"})
    real, read_so_far = module._content, []

    def content(entry: Any, *more: Any) -> Any:
        read_so_far.append(entry.path)
        found = real(entry, *more)
        if len(read_so_far) == 1:
            write(tmp_path, {"p/model.py": "new", "p/train.py": "new"})
        return found

    monkeypatch.setattr(module, "_content", content)
    found = read("p", tmp_path)
    assert {b"".join(read_bytes(entry)) for entry in found.files} == {b"new"}
    assert {entry.sha256 for entry in found.files} == {hashlib.sha256(b"new").hexdigest()}


def test_a_file_that_comes_while_it_is_read_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"p/a.py": "one", "p/pkg/b.py": "two"})
    after_the_walk(monkeypatch, lambda: write(tmp_path, {"p/pkg/c.py": "three"}))
    assert "pkg/c.py" in shipped(read("p", tmp_path))


def counted_walks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One item for each walk that is made from now on."""
    walks: list[Any] = []
    real = module._walked

    def walked(*args: Any) -> Any:
        walks.append(args)
        return real(*args)

    monkeypatch.setattr(module, "_walked", walked)
    return walks


def test_what_is_left_out_may_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"p/a.py": "one"})
    walks = counted_walks(monkeypatch)
    after_the_walk(monkeypatch, *[lambda: write(tmp_path, {"p/a.pyc": "x"})] * 5)
    assert shipped(read("p", tmp_path)) == {"a.py": "file"}
    assert len(walks) == 1


def test_a_project_that_changes_all_the_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"p/a.py": "one", "p/log": ""})

    def grow() -> None:
        with (tmp_path / "p/log").open("a") as stream:
            stream.write("x")

    after_the_walk(monkeypatch, *[grow] * 20)
    with pytest.raises(SourceChanged, match=r"p/log keeps changing while it is read: stop what writes it, or leave"):
        read("p", tmp_path)
    assert shipped(read("p", tmp_path, exclude=["log"])) == {"a.py": "file"}


def test_how_far_the_reading_is(tmp_path: Path) -> None:
    write(tmp_path, {"p/a": "x" * 300_000, "p/b": "y" * 10})
    told: list[tuple[int, int, int]] = []
    read("p", tmp_path, reading=lambda *numbers: told.append(numbers))
    assert all(total == 300_010 and done + more <= total for done, total, more in told)
    assert sorted(done + more for done, _total, more in told)[-1] == 300_010
    assert len(told) >= 3


# What git says


def git(folder: Path, *argv: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, *argv], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the project in a folder of it, committed."""
    write(
        tmp_path,
        {
            "scripts/a.py": "1",
            "scripts/pkg/b.py": "2",
            "scripts/inventory.yml": "",
            ".gitignore": "*.log\n/scripts/out/\n",
            "README": "",
        },
    )
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_the_commit_is_recorded(repository: Path) -> None:
    found = read("scripts", repository)
    assert (found.commit, found.dirty, found.warnings) == (git(repository, "rev-parse", "HEAD"), False, [])


@pytest.mark.parametrize(
    ("change", "dirty"),
    [
        ({"scripts/a.py": "changed"}, True),
        ({"scripts/new.py": "n"}, True),
        ({"scripts/fresh/new.py": "n"}, True),
        ({"README": "changed"}, False),
        ({"scripts/inventory.yml": "not shipped"}, False),
        ({"scripts/.env": "not shipped"}, False),
        ({"scripts/run.log": "ignored"}, False),
        ({"scripts/a.py": None}, True),
    ],
)
def test_dirty_means_that_what_ships_differs(repository: Path, change: dict[str, str | None], dirty: bool) -> None:
    for path, text in change.items():
        if text is None:
            (repository / path).unlink()
        else:
            write(repository, {path: text})
    before = (repository / ".git" / "index").stat().st_mtime_ns
    assert read("scripts", repository).dirty is dirty
    assert (repository / ".git" / "index").stat().st_mtime_ns == before


def test_what_gitignore_names_is_left_out(repository: Path) -> None:
    write(repository, {"scripts/run.log": "l", "scripts/out/big.pt": "b", "scripts/pkg/x.log": "l"})
    found = read("scripts", repository)
    assert shipped(found) == {"a.py": "file", "pkg": "dir", "pkg/b.py": "file"}
    assert [path for path, why in found.ignored if why == ".gitignore"] == ["out", "pkg/x.log", "run.log"]
    assert "run.log" in shipped(read("scripts/run.log", repository))  # named by the user
    assert "big.pt" in shipped(read("scripts/out", repository, name="x"))


def test_a_repository_that_git_refuses_is_a_warning(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (repository / ".git" / "HEAD").write_text("nonsense")
    found = read("scripts", repository)
    assert (found.commit, found.dirty) == (None, None)
    assert "git failed (fatal: not a git repository" in found.warnings[0]
    assert "is not recorded, and no .gitignore above it applied" in found.warnings[0]
    write(repository, {"scripts/.gitignore": "a.py\n"})
    assert set(shipped(read("scripts", repository))) == {"pkg", "pkg/b.py"}
    assert read("scripts", repository).warnings == found.warnings
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert "git is not installed: .gitignore of" in read("scripts", repository).warnings[0]


def test_a_folder_without_git_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"p/a": "1"})
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    found = read("p", tmp_path)
    assert (found.commit, found.dirty, found.warnings) == (None, None, [])


# Folders in no work tree

COPY = {
    ".gitignore": "*.log\n/data/\n/only here\n",
    "src/.gitignore": "!keep.log\nz*\n",
    "train.py": "1",
    "run.log": "l",
    "data/f": "d",
    "only here": "x",
    "src/only here": "x",
    "src/keep.log": "k",
    "src/x.log": "l",
    "src/deep/zed": "z",
    "src/deep/y.py": "y",
    "new\nline.log": "l",
}
COPIED = {"train.py", "src", "src/only here", "src/keep.log", "src/deep", "src/deep/y.py"}
COPY_IGNORED = ["data", "new\nline.log", "only here", "run.log", "src/deep/zed", "src/x.log"]


def everything(folder: Path) -> set[tuple[str, int]]:
    return {(str(path), path.lstat().st_mtime_ns) for path in (folder, *folder.rglob("*"))}


def test_gitignore_is_applied_in_a_copy_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "p", COPY)
    (tmp_path / "p" / os.fsdecode(b"\xff.log")).touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    before = everything(tmp_path / "p")
    found = read("p", tmp_path)
    assert set(shipped(found)) == COPIED
    assert [path for path, why in found.ignored if why == ".gitignore"] == [*COPY_IGNORED, os.fsdecode(b"\xff.log")]
    assert (found.commit, found.dirty, found.warnings) == (None, None, [])
    assert everything(tmp_path / "p") == before
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_copy_is_the_same_release_as_its_work_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"home/.config/git/ignore": "*.mine\n"})
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for folder in ("copy/p", "tree/p"):
        write(tmp_path / folder, {**COPY, "a.mine": "m", "nothing/b.mine": "m"})
    git(tmp_path / "tree/p", "init", "-q")
    copy, tree = read("copy/p", tmp_path), read("tree/p", tmp_path)
    assert set(shipped(copy)) == {*COPIED, "nothing"}
    assert (copy.release_id, copy.ignored) == (tree.release_id, [one for one in tree.ignored if one[0] != ".git"])


def test_gitignore_of_a_copy_counts_wherever_its_files_go_and_for_what_is_measured(tmp_path: Path) -> None:
    write(tmp_path, {f"p/{path}": text for path, text in COPY.items()} | {"q/run.log": "1", "q/a.py": "2"})
    spec = ["q", {"src": "p", "dest": "lib"}, {"src": "p/run.log", "dest": "named.log"}]
    expected = {"run.log", "a.py", "named.log", "lib", *(f"lib/{path}" for path in COPIED)}
    found = read(spec, tmp_path, limits=Limits(0, 7))
    assert set(shipped(found)) == expected
    measured = module.measure_project(spec, [], str(tmp_path))
    assert measured.files == [(entry.path, entry.size) for entry in found.files if entry.type == "file"]
    assert measured.ignored == found.ignored


def test_what_gitignore_of_a_copy_names_may_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "p", COPY)
    walks = counted_walks(monkeypatch)
    after_the_walk(monkeypatch, (tmp_path / "p/run.log").unlink)
    assert set(shipped(read("p", tmp_path))) == COPIED
    assert len(walks) == 1
    after_the_walk(monkeypatch, lambda: write(tmp_path, {"p/late.log": "l", "p/late.py": "l"}))
    assert set(shipped(read("p", tmp_path))) == {*COPIED, "late.py"}
    assert len(walks) == 3


def test_gitignore_of_a_copy_needs_git_and_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "p", COPY)
    with monkeypatch.context() as without:
        without.setenv("PATH", str(tmp_path / "nowhere"))
        found = read("p", tmp_path)
        assert found.warnings == [f"git is not installed: .gitignore of {tmp_path}/p is not applied"]
        assert "run.log" in shipped(found)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    (warning,) = read("p", tmp_path).warnings
    assert "No such file or directory" in warning
    assert warning.endswith(f": .gitignore of {tmp_path}/p is not applied")


def test_a_gitignore_that_git_does_not_read_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"p/names": "*.log\n", "p/run.log": "l"})
    (tmp_path / "p/.gitignore").symlink_to("names")
    (warning,) = read("p", tmp_path).warnings
    assert "unable to access '.gitignore': Too many levels of symbolic links: it is not applied" in warning


def test_gitignore_of_a_folder_that_the_work_tree_ignores(repository: Path) -> None:
    write(repository, {"scripts/out/.gitignore": "*.pt\n", "scripts/out/a.pt": "1", "scripts/out/b.py": "2"})
    found = read("scripts/out", repository, name="x")
    assert (set(shipped(found)), found.commit, found.dirty) == ({"b.py"}, None, None)


def test_a_work_tree_is_found_through_a_link(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    link = tmp_path_factory.mktemp("elsewhere") / "proj"
    link.symlink_to(repository / "scripts")
    write(repository, {"scripts/run.log": "l", "scripts/out/big.pt": "b"})
    found = read(str(link), repository)
    assert set(shipped(found)) == {"a.py", "pkg", "pkg/b.py"}
    assert (found.commit, found.dirty) == (git(repository, "rev-parse", "HEAD"), False)


@pytest.mark.parametrize("around", ["work tree", "copy"])
def test_gitignore_of_repositories_in_the_project(tmp_path: Path, around: str) -> None:
    own = {".gitignore": "*.tmp\n", "a.tmp": "t", "b.log": "l", "c.py": "c", "deep/d.tmp": "t", "deep/e.py": "e"}
    write(tmp_path / "p", {"train.py": "1", ".gitignore": "*.log\n", "run.log": "l", "run.tmp": "t"})
    for name in ("lib/own", "copied"):
        write(tmp_path / "p" / name, own)
    git(tmp_path / "p/lib/own", "init", "-q")
    (tmp_path / "p/copied/.git").write_text("gitdir: ../.git/modules/copied\n")  # what is left of a submodule
    if around == "work tree":
        git(tmp_path / "p", "init", "-q")
    found = read("p", tmp_path)
    files = {entry.path for entry in found.files if entry.type == "file"}
    nested = {f"lib/own/{path}" for path in ("b.log", "c.py", "deep/e.py")}  # no .gitignore reaches into another one
    assert files == {"train.py", "run.tmp", *nested, "copied/c.py", "copied/deep/e.py"}
    assert found.warnings == []


@pytest.mark.parametrize(
    ("text", "prefix", "expected"),
    [
        ("# branch.oid (initial)\0# branch.head main\0", ".", WorkTree()),
        (
            "# branch.oid abc\0? p/x y\0! p/out/\0",
            "p",
            WorkTree("abc", frozenset(), frozenset({"x y"}), frozenset({"out"})),
        ),
        (
            (
                "# branch.oid abc\0"
                "1 .M N... 100644 100644 100644 aa bb p/a b.py\0"
                "2 R. N... 100644 100644 100644 aa bb R100 p/new\0p/old\0"
                "u UU N... 100644 100644 100644 100644 aa bb cc p/c\0"
            ),
            "p",
            WorkTree("abc", frozenset({"a b.py", "new", "old", "c"})),
        ),
        ("# branch.oid abc\0! build/\0", "build/out", WorkTree(outside=True)),
    ],
)
def test_reading_git_status(text: str, prefix: str, expected: WorkTree) -> None:
    assert parse_status(text, prefix) == expected
