# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is never shipped, and why: tool folders, bytecode, inventories, secrets, and what `exclude` names."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

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
    ".ssh": "secrets",
    ".aws": "secrets",
    ".azure": "secrets",
    ".kube": "secrets",
    ".gnupg": "secrets",
}
FILES = {
    "*.pyc": "bytecode",
    "*~": "editor backup",
    ".*.sw[op]": "editor backup",
    "#*#": "editor backup",
    ".#*": "editor backup",
    ".DS_Store": "desktop file",
    ".trainops": "releases",
    ".git*": "version control",
}
# In any folder, with capitals or without.
SECRETS = (
    ".env",
    ".env.*",
    ".envrc",
    "*.env",
    "secrets.*",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "*.pem",
    "*.key",
    "*.ppk",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.kdbx",
    "*vault_pass*",
    "*vault-pass*",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".git-credentials",
    ".pypirc",
    ".npmrc",
    ".htpasswd",
    "kaggle.json",
)
SECRET_PATHS = (".docker/config.json", ".config/gcloud", ".config/gh", ".cache/huggingface/token")
# The user's playbooks lie beside the scripts: only there, not deeper, do these names mean that.
PLAYBOOKS = frozenset(path.stem for path in (Path(__file__).resolve().parents[2] / "playbooks").glob("*.yml"))
_DATA = (".yml", ".yaml", ".ini", ".toml", ".json", ".cfg")
_VAULT = b"$ANSIBLE_VAULT;"
_PRIVATE_KEY = re.compile(rb"\s*-----BEGIN [A-Z ]*PRIVATE KEY-----|PuTTY-User-Key-File-")
_MARK = rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
# A line of its own, or in code or JSON with a key behind it: code that only looks for keys has the mark alone.
_KEY = re.compile(rb"^[ \t]*" + _MARK + rb"[ \t\r]*$|" + _MARK + rb"(?:\\[rn]|\s)*[A-Za-z0-9+/=]{16}", re.MULTILINE)


def left_out(path: str, info: os.stat_result, exclude: Sequence[str]) -> str | None:
    """Why the file or folder at ``path``, relative to its source folder, is not shipped by its name; None when it is.

    ``exclude`` are glob patterns: one without a slash matches names at any depth, one with a slash the whole path, one
    that ends with a slash only folders. ``*`` also matches slashes.
    """
    name = path.rpartition("/")[2]
    is_folder = stat.S_ISDIR(info.st_mode)
    if is_folder and name in FOLDERS:
        return FOLDERS[name]
    if is_secret(path, is_folder):
        return "secrets"
    if not is_folder:
        for pattern, what in FILES.items():
            if fnmatchcase(name, pattern):
                return what
    why = _of_ansible(path, name, is_folder, bool(info.st_mode & stat.S_IXUSR))
    matching = (f"excluded by {pattern}" for pattern in exclude if _matches(path, name, is_folder, pattern))
    return why or next(matching, None)


def is_secret(path: str, is_folder: bool = False) -> bool:
    """Whether a path is known for what nobody else may read: by its name, or by that of a folder above it."""
    folders, _slash, name = path.rpartition("/")
    if any(FOLDERS.get(part) == "secrets" for part in (*folders.split("/"), *([name] if is_folder else []))):
        return True
    if any(f"/{path}/".endswith(f"/{known}/") or f"/{known}/" in f"/{folders}/" for known in SECRET_PATHS):
        return True
    # A module called secrets.py or id_rsa_tools.py is code, and its importer would miss it.
    is_code = name.lower().endswith((".py", ".pyi"))
    return not (is_folder or is_code) and any(fnmatchcase(name.lower(), pattern) for pattern in SECRETS)


def _of_ansible(path: str, name: str, is_folder: bool, executable: bool) -> str | None:
    stem, suffix = os.path.splitext(name)
    if is_folder:
        return "inventory" if name in ("inventory", "inventories", "group_vars", "host_vars") else None
    if path == "ansible.cfg":
        return "Ansible's settings"
    if suffix in (".yml", ".yaml") and path == name and stem in PLAYBOOKS:
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


def left_out_by_content(head: bytes) -> str | None:
    """Why a file that begins with ``head`` is not shipped: "vault", "private key", or None when it is."""
    if head.startswith(_VAULT):
        return "vault"
    return "private key" if _PRIVATE_KEY.match(head) else None


def why_hidden(path: str, *texts: str | None) -> str | None:
    """Why nothing of a file is shown to anybody: by its path, or by what any version of its text is; None when it may.

    What is sent is judged by its beginning, as programs read it. What is shown is hidden for a key anywhere in it.
    """
    if is_secret(path):
        return "its name is that of secrets"
    for text in texts:
        data = (text or "").encode("utf-8", "surrogatepass")
        if what := left_out_by_content(data) or ("private key" if _KEY.search(data) else None):
            return f"it holds a {what}"
    return None


def is_package(folder: str) -> bool:
    """Whether a folder is a Python package; one called inventory is the project's, then."""
    return os.path.exists(os.path.join(folder, "__init__.py"))


def is_environment(folder: str) -> bool:
    """Whether a folder is a virtual environment, of Python or of conda."""
    return any(os.path.exists(os.path.join(folder, mark)) for mark in ("pyvenv.cfg", "conda-meta"))
