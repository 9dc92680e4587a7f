#!/usr/bin/env python3
"""Run the whole ansible-test sanity suite on the built collection, as its users get it.

ansible-test wants to stand in ansible_collections/NAMESPACE/NAME, outside any git work tree; the repository itself is
neither. A tarball whose content passed already under the same ansible-core is not tested again.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEEN = ROOT / ".cache" / "sanity"
PYTHONS = [f"python3.{minor}" for minor in range(8, 16)]

# ansible-test makes environments of its own and fetches pip for them from a host of the Ansible project. Python's own
# pip does as well, and it is there without that host.
BOOTSTRAP = "import ensurepip; ensurepip.bootstrap(upgrade=True, default_pip=True)\n"


def build(folder: Path) -> Path:
    """Build the collection's tarball in `folder` and return its path."""
    run(["ansible-galaxy", "collection", "build", str(ROOT), "--output-path", str(folder)], ROOT, os.environ)
    (tarball,) = folder.glob("*.tar.gz")
    return tarball


def content_key(tarball: Path) -> str:
    """Return a digest of the tarball's file list (which carries each file's sha256), this Python and ansible-core."""
    with tarfile.open(tarball) as archive:
        listing = archive.extractfile("FILES.json")
        digest = hashlib.sha256(listing.read() if listing else b"")
    version = subprocess.run(["ansible-test", "--version"], capture_output=True, check=True).stdout
    digest.update(version + sys.version.encode() + Path(__file__).read_bytes())
    return digest.hexdigest()


def bootstrap_name() -> str:
    """Return the file name under which this ansible-test looks for its pip bootstrap, e.g. `get_pip_25_2.py`.

    Source: `get_venv_packages` in `ansible_test/_internal/python_requirements.py`; raises LookupError when the pip
    release no longer stands there.
    """
    import ansible_test  # found beside ansible-core; a folder without an __init__

    source = Path(next(iter(ansible_test.__path__)), "_internal", "python_requirements.py")
    found = re.search(r"""\bpip='([0-9.]+)'""", source.read_text())
    if not found:
        raise LookupError(f"no pip release in {source}; tools/sanity.py must learn where ansible-test keeps it now")
    return f"get_pip_{found[1].replace('.', '_')}.py"


def runs(python: Path) -> bool:
    """Tell whether this interpreter really runs; a version manager's shim can exist and fail."""
    if not os.access(python, os.X_OK):
        return False
    done = subprocess.run([python, "-c", ""], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return done.returncode == 0


def usable_path(base: Mapping[str, str], links: Path) -> str:
    """Return a PATH on which each `python3.N` runs: ansible-test takes the first of a name and stops when that fails.

    `links` is filled with a link for each version whose first one on PATH fails while another works; a folder that
    holds a failing one of which no other exists is left out.
    """
    folders = [Path(name) for name in base.get("PATH", os.defpath).split(os.pathsep) if name]
    links.mkdir()
    for name in PYTHONS:
        first = next((folder / name for folder in folders if (folder / name).exists()), None)
        if first is None or runs(first):
            continue
        others = [folder / name for folder in folders] + sorted(Path.home().glob(f".pyenv/versions/*/bin/{name}"))
        if works := next(filter(runs, others), None):
            (links / name).symlink_to(works)
        else:
            folders = [folder for folder in folders if not (folder / name).exists()]
    return os.pathsep.join(map(str, (links, *folders)))


def prepare_home(base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` with a HOME for ansible-test alone, which keeps its environments between runs and checkouts.

    The user's own ~/.ansible stays as it is; pip's configuration and cache are the user's, by links.
    """
    home = Path(base.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainops" / "ansible-test"
    bootstrap = home / ".ansible" / "test" / "cache" / bootstrap_name()
    bootstrap.parent.mkdir(parents=True, exist_ok=True)
    bootstrap.write_text(BOOTSTRAP)
    for name in (".cache", ".config", ".pip"):
        link = home / name
        if not link.is_symlink():
            link.symlink_to(Path.home() / name)
    return {**base, "HOME": str(home)}


def run(argv: Iterable[str], cwd: Path, env: Mapping[str, str]) -> None:
    """Run a command with its output passed on; raise CalledProcessError when it fails."""
    subprocess.run(list(argv), cwd=cwd, env=env, stdin=subprocess.DEVNULL, check=True)


def main() -> int:
    """Build, install and test the collection in a temporary folder; return the exit status."""
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    with tempfile.TemporaryDirectory(prefix="trainops-sanity-") as scratch:
        tarball = build(Path(scratch))
        passed = SEEN / content_key(tarball)
        if passed.exists():
            print(f"sanity: {tarball.name} has passed already with this content")
            return 0
        collections = Path(scratch, "ansible_collections")
        install = ["ansible-galaxy", "collection", "install", "--offline", "--no-deps", "--force", "-p", scratch]
        try:
            run([*install, str(tarball)], ROOT, {**os.environ, "ANSIBLE_COLLECTIONS_PATH": scratch})
            where = collections / "trainops" / "proxmox"
            env = {**prepare_home(os.environ), "PATH": usable_path(os.environ, Path(scratch, "bin"))}
            run(["ansible-test", "sanity", "--color", "no"], where, env)
        except subprocess.CalledProcessError as exc:
            print(f"sanity: {exc.cmd[0]} {exc.cmd[1]} failed with exit status {exc.returncode}")
            return 1
    SEEN.mkdir(parents=True, exist_ok=True)
    passed.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
