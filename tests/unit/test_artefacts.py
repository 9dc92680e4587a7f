"""The wheel, the sdist and the Galaxy tarball are built and hold what a user needs, and nothing of the development."""

from __future__ import annotations

import posixpath
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import yaml

from tests.artefacts import BIN, ROOT, run

INSIDE = "ansible_collections/trainops/proxmox/"
SHIPPED = ("docs", "meta", "playbooks", "plugins", "roles")
DEVELOPMENT = ("bench", "examples", "extensions", "inventories", "lab", "tests", "tools", ".ci", ".venv", ".cache")


def shipped_files() -> set[str]:
    """Return the collection's files in the checkout, relative to its root."""
    found = (path for name in SHIPPED for path in (ROOT / name).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}


def test_wheel_holds_the_package_and_the_whole_collection(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {str(path.relative_to(ROOT)) for path in (ROOT / "trainops").rglob("*.py")}
    assert package <= names
    assert {INSIDE + name for name in shipped_files()} <= names
    assert {INSIDE + name for name in ("galaxy.yml", "README.md", "LICENSE")} <= names


def test_wheel_holds_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"ansible_collections", "trainops", wheel_info(wheel)}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
    assert not [name for name in names if name.removeprefix(INSIDE).split("/")[0] in DEVELOPMENT]


def wheel_info(wheel: Path) -> str:
    """Return the name of the wheel's metadata folder."""
    name, version = wheel.name.split("-")[:2]
    return f"{name}-{version}.dist-info"


def relative_links(text: str) -> set[str]:
    """Return the files that Markdown links to, and no addresses."""
    return set(re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", text))


def test_no_link_of_the_packages_description_leads_nowhere(wheel: Path) -> None:
    metadata = zipfile.ZipFile(wheel).read(f"{wheel_info(wheel)}/METADATA").decode()
    assert "Description-Content-Type: text/markdown" in metadata
    assert "## Install" in metadata
    assert relative_links(metadata) == set()


def test_each_link_of_what_is_delivered_is_delivered_too(tarball: Path, wheel: Path) -> None:
    with tarfile.open(tarball) as archive:
        collections = {name: _text(archive, name) for name in archive.getnames() if name.endswith(".md")}
        names = set(archive.getnames())
    assert "README.md" in collections
    dead = {
        (page, link)
        for page, text in collections.items()
        for link in relative_links(text)
        if posixpath.normpath(posixpath.join(posixpath.dirname(page), link)) not in names
    }
    assert dead == set()
    assert {INSIDE + name for name in collections} <= set(zipfile.ZipFile(wheel).namelist())


def _text(archive: tarfile.TarFile, name: str) -> str:
    stream = archive.extractfile(name)
    return stream.read().decode() if stream else ""


def test_wheel_installs_the_command(wheel: Path) -> None:
    entry_points = zipfile.ZipFile(wheel).read(f"{wheel_info(wheel)}/entry_points.txt").decode()
    assert "trainops = trainops.cli:main" in entry_points.splitlines()


def test_ansible_finds_the_collection_of_an_unpacked_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    listing = run(
        BIN / "ansible-galaxy",
        "collection",
        "list",
        "trainops.proxmox",
        env={"ANSIBLE_COLLECTIONS_PATH": str(tmp_path), "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH": "false"},
    )
    assert ["trainops.proxmox", galaxy()["version"]] in [line.split() for line in listing.splitlines()]


def test_tarball_is_the_collection_without_the_development(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = {member.name for member in archive.getmembers() if member.isfile()}
    assert shipped_files() <= names
    assert {name.split("/")[0] for name in names} - {*SHIPPED, "CHANGELOG.md"} == {
        "FILES.json",
        "LICENSE",
        "LICENSES",
        "MANIFEST.json",
        "README.md",
        "changelogs",
    }


def test_an_execution_environment_gets_what_the_collection_needs(tarball: Path, tmp_path: Path) -> None:
    with tarfile.open(tarball) as archive:
        archive.extractall(tmp_path / "ansible_collections/trainops/proxmox", filter="data")
    found = yaml.safe_load(run(BIN / "ansible-builder", "introspect", tmp_path))
    needed = {kind: {line.partition("  #")[0].strip() for line in lines} for kind, lines in found.items()}
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    of_the_command = ("ansible-core", "ansible-runner", "click")
    assert needed["python"] == {name for name in dependencies if not name.startswith(of_the_command)}
    assert {"openssh-client [platform:dpkg]", "openssh-clients [platform:rpm]"} <= needed["system"]


def test_sdist_carries_what_the_wheel_is_built_from(python_artefacts: Path) -> None:
    (sdist,) = python_artefacts.glob("trainops-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}
    assert {"pyproject.toml", "galaxy.yml", "tools/hatch_build.py", *shipped_files()} <= names
    assert not [name for name in names if name.split("/")[0] in (".venv", ".cache", "dist")]


def galaxy() -> dict[str, str]:
    """Return the collection's metadata."""
    loaded: dict[str, str] = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    return loaded


def test_both_artefacts_have_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == galaxy()["version"]


def test_action_group_lists_every_action() -> None:
    groups = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]
    actions = {path.stem for path in (ROOT / "plugins/action").glob("*.py") if not path.stem.startswith("_")}
    assert actions <= set(groups["trainops"])
