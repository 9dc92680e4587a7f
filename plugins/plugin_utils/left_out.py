# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is never shipped, and why: tool folders, bytecode, inventories, secrets, and what `exclude` names."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase

FOLDERS = {
    ".git": "version control",
    ".github": "version control",
    ".hg": "version control",
    ".svn": "version control",
    "__pycache__": "bytecode",
    ".ipynb_checkpoints": "editor backup",
    ".mypy_cache": "cache",
    ".pytest_cache": "cache",
    ".ruff_cache": "cache",
    ".tox": "virtual environments",
    ".nox": "virtual environments",
    ".idea": "editor settings",
    ".vscode": "editor settings",
    ".trainops": "releases",
}
FILES = {
    "*.pyc": "bytecode",
    ".env": "secrets",
    ".env.*": "secrets",
    ".envrc": "secrets",
    "*~": "editor backup",
    ".*.sw[op]": "editor backup",
    "#*#": "editor backup",
    ".#*": "editor backup",
    ".DS_Store": "desktop file",
    ".git*": "version control",
}
# The user's Ansible files lie beside the scripts: only there, not deeper, do these names mean that.
PLAYBOOKS = (
    "deploy_training",
    "launch_training",
    "stop_training",
    "rollback_training",
    "training_status",
    "gpu_status",
    "doctor",
)
_DATA = (".yml", ".yaml", ".ini", ".toml", ".json", ".cfg")
_VAULT = b"$ANSIBLE_VAULT;"


def left_out(path: str, info: os.stat_result, exclude: Sequence[str]) -> str | None:
    """Why the file or folder at ``path``, relative to its source folder, is not shipped by its name; None when it is.

    ``exclude`` are glob patterns: one without a slash matches names at any depth, one with a slash the whole path, one
    that ends with a slash only folders. ``*`` also matches slashes.
    """
    name = path.rpartition("/")[2]
    is_folder = stat.S_ISDIR(info.st_mode)
    if is_folder and name in FOLDERS:
        return FOLDERS[name]
    if not is_folder:
        for pattern, what in FILES.items():
            if fnmatchcase(name, pattern):
                return what
    why = None if "/" in path else _of_ansible(name, is_folder, bool(info.st_mode & stat.S_IXUSR))
    matching = (f"excluded by {pattern}" for pattern in exclude if _matches(path, name, is_folder, pattern))
    return why or next(matching, None)


def _of_ansible(name: str, is_folder: bool, executable: bool) -> str | None:
    stem, suffix = os.path.splitext(name)
    if is_folder:
        return "inventory" if name in ("inventory", "inventories", "group_vars", "host_vars") else None
    if name == "ansible.cfg":
        return "Ansible's settings"
    if suffix in (".yml", ".yaml") and stem in PLAYBOOKS:
        return "playbook"
    if stem == "hosts" and suffix in ("", *_DATA):
        return "inventory"
    # inventory.py may well be a module of the project; a dynamic inventory is a program.
    if stem.startswith("inventory") and (suffix in _DATA or name == "inventory" or executable):
        return "inventory"
    return None


def _matches(path: str, name: str, is_folder: bool, pattern: str) -> bool:
    wanted = pattern.rstrip("/")
    if pattern.endswith("/") and not is_folder:
        return False
    subject = path if "/" in wanted else name
    return fnmatchcase(subject, wanted.removeprefix("./").removeprefix("/"))


def is_vault(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is encrypted by ansible-vault."""
    return head.startswith(_VAULT)


def is_environment(folder: str) -> bool:
    """Whether a folder is a Python virtual environment."""
    return os.path.exists(os.path.join(folder, "pyvenv.cfg"))
