# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The project that is deployed: every part of it carries the stamp of its release, and says when another differs."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

MODULES = 6
DATA_BYTES = 200_000

_TRAIN = """
import os
import stat

import model_0
import only_{stamp}
from parts import deep

STAMP = {stamp}


def check(release, root):
    assert deep.STAMP == only_{stamp}.STAMP == model_0.check() == STAMP, "mixed stamps"
    with open(os.path.join(release, "weights"), "rb") as stream:
        assert stream.readline() == b"{stamp}\\n", "the link leads to another release's data"
        assert len(stream.read()) == {size}, "the data is not whole"
    assert os.readlink(os.path.join(release, "weights")) == "data/{stamp}.bin", "another release's link"
    info = os.stat(os.path.join(release, "run.sh"))
    assert stat.S_IMODE(info.st_mode) == 0o755, "the exec bits are missing"
    with open(os.path.join(release, "run.sh")) as stream:
        assert stream.read() == "echo {stamp}\\n", "another release's script"
    assert sorted(os.listdir(release)) == {names}, "names are missing or too many"
    for name in ("train.py", "run.sh", "weights", "parts"):
        os.stat(os.path.join(root, name))
"""
_MODEL = """
import model_{next}

STAMP = {stamp}


def check():
    assert model_{next}.STAMP == STAMP, "mixed stamps"
    return {then}
"""


def texts(stamp: int) -> dict[str, str]:
    """The project's text files of one stamp."""
    models = {
        f"model_{n}.py": _MODEL.format(
            stamp=stamp, next=(n + 1) % MODULES, then=f"model_{n + 1}.check()" if n + 1 < MODULES else "STAMP"
        )
        for n in range(MODULES)
    }
    names = sorted([*models, "train.py", f"only_{stamp}.py", "parts", "run.sh", "weights", "data"])
    return {
        **models,
        "train.py": _TRAIN.format(stamp=stamp, size=DATA_BYTES, names=names),
        f"only_{stamp}.py": f"STAMP = {stamp}\n",
        "parts/__init__.py": "",
        "parts/deep.py": f"STAMP = {stamp}\n",
        "run.sh": f"echo {stamp}\n",
    }


def data(stamp: int) -> bytes:
    """The data file of one stamp, which does not compress."""
    return f"{stamp}\n".encode() + hashlib.shake_128(str(stamp).encode()).digest(DATA_BYTES)


def write(folder: Path, stamp: int) -> None:
    """Let the folder hold the project of one stamp and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "parts").mkdir(parents=True)
    (folder / "data").mkdir()
    for name, text in texts(stamp).items():
        (folder / name).write_text(text)
    (folder / "run.sh").chmod(0o755)
    (folder / "data" / f"{stamp}.bin").write_bytes(data(stamp))
    (folder / "weights").symlink_to(f"data/{stamp}.bin")


def wrong(release: Path, stamp: int) -> list[str]:
    """What of a release is not the project of that stamp, seen from outside of the container."""
    wanted = {name: text.encode() for name, text in texts(stamp).items()} | {f"data/{stamp}.bin": data(stamp)}
    there = {str(path.relative_to(release)) for path in release.rglob("*") if path.is_file() and not path.is_symlink()}
    found = [f"{name} is missing" for name in sorted(wanted.keys() - there)]
    found += [f"{name} is too many" for name in sorted(there - wanted.keys())]
    found += [
        f"{name} differs" for name in sorted(there & wanted.keys()) if (release / name).read_bytes() != wanted[name]
    ]
    return found
