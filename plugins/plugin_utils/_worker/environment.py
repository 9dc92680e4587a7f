# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of a run: clean, built from what is known here, and recorded without anything secret.

Later ones win: what we set for Python and the caches, the env file, the variables given with the launch. The GPUs and
the marks by which the processes of a run are known are ours alone.
"""

from __future__ import annotations

import os
import pwd
import re
import stat

from .channel import WorkerError
from .secret import is_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MOST_BYTES = 1 << 20
_OURS = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TRAINOPS_RUN", "TRAINOPS_RUN_ID", "TRAINOPS_RELEASE")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def recorded(env: dict[str, str], hidden: Collection[str] = ()) -> dict[str, str | None]:
    """An environment as it is written down: None for what is hidden or may be a secret."""
    return {name: None if name in hidden or is_secret(name, env[name]) else env[name] for name in sorted(env)}


def base(caches: dict[str, str]) -> dict[str, str]:
    """What every run has: who it runs as, Python's behaviour, the caches.

    Bytecode goes where Python always puts it. In a release that is harmless, since our mtimes are derived from contents
    and bytecode is never taken for a file of the project; a prefix elsewhere would hide the bytecode of what is
    installed, and every first start would compile all of it.
    """
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
        user, home, shell = entry.pw_name, entry.pw_dir, entry.pw_shell
    except KeyError:
        user, home, shell = str(uid), "/", ""
    return {
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": shell or "/bin/sh",
        "LANG": "C.UTF-8",
        "PATH": _PATH,
        "PYTHONUNBUFFERED": "1",
        **caches,
    }


def with_paths(env: dict[str, str], python: str, folders: list[str]) -> dict[str, str]:
    """The same with the interpreter's folder first on PATH, and ``folders``, the release's before all, on Python's."""
    theirs = [entry for entry in env.get("PYTHONPATH", "").split(":") if entry]
    return {
        **env,
        "PATH": ":".join([os.path.dirname(python), *[one for one in env["PATH"].split(":") if one]]),
        "PYTHONPATH": ":".join(dict.fromkeys([*folders, *theirs])),
    }


def marks(run: str, token: str, release: str, gpus: list[dict[str, Any]]) -> dict[str, str]:
    """The variables that are ours alone."""
    devices = [device_of(gpu) for gpu in gpus]
    return {
        "TRAINOPS_RUN": token,
        "TRAINOPS_RUN_ID": run,
        "TRAINOPS_RELEASE": release,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(devices),
    }


def device_of(gpu: dict[str, Any]) -> str:
    """How a run is told of a GPU: by number and not by UUID, which breaks programs that parse it, but for MIG."""
    return str(gpu["uuid"] if gpu["uuid"].startswith("MIG-") else gpu["index"])


def check_given(env: dict[str, Any], where: str) -> dict[str, str]:
    """Variables as texts. Raises WorkerError("env") for those that cannot be set, or that are ours."""
    for number, (name, value) in enumerate(env.items(), 1):
        if not _NAME.fullmatch(name):
            fix = "letters, digits and _ can be in it"
            raise WorkerError("env", f"{where}: the name of variable {number} cannot be one: {fix}")
        if name in _OURS:
            fix = "choose GPUs by training_gpus" if name.startswith("CUDA") else "leave it out"
            raise WorkerError("env", f"{where}: {name} is set by the launch: {fix}")
        if not isinstance(value, (str, int, float)) or isinstance(value, bool):
            raise WorkerError("env", f"{where}: {name} is no text: write it in quotes")
        if "\0" in str(value):
            raise WorkerError("env", f"{where}: {name} has a NUL character in it, which no environment can hold")
    return {name: str(value) for name, value in env.items()}


def read_env_file(path: str, root: str) -> dict[str, str]:
    """The variables of a file in the container; a relative path counts from the root.

    Raises WorkerError("env-file"), which names the file, the line and the fix.
    """
    full = os.path.join(root, path)
    try:
        fd = os.open(full, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        fix = "it is a file in the container: create it there, or correct training_env_file"
        raise WorkerError("env-file", f"{full}: {error.strerror}: {fix}") from None
    with open(fd, "rb") as stream:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode) or info.st_size > _MOST_BYTES:
            raise WorkerError("env-file", f"{full} is no plain file of up to 1 MB: correct training_env_file")
        text = stream.read(_MOST_BYTES).decode("utf-8", "surrogateescape")
    return check_given(parse_env(text, full), full)


def parse_env(text: str, shown: str) -> dict[str, str]:
    """The variables in lines of NAME=VALUE; ``export`` before them, quotes and comments are understood.

    Nothing is expanded: a ``$`` stays what it is. Within double quotes a backslash makes ``\\n``, ``\\t`` and the like.
    Raises WorkerError("env-file") with the line's number.
    """
    found = {}
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            try:
                name, value = parse_line(stripped)
            except ValueError as error:
                raise WorkerError("env-file", f"{shown}:{number}: {error}") from None
            found[name] = value
    return found


def parse_line(line: str) -> tuple[str, str]:
    """Name and value of one line. Raises ValueError."""
    name, equals, value = re.sub(r"^export\s+", "", line).partition("=")
    if not equals:
        raise ValueError("there is no '=': write NAME=VALUE, or # before a comment")
    if not _NAME.fullmatch(name.strip()):
        # What stands there may be a secret, as in NAME: VALUE= of another kind of file.
        raise ValueError(
            "what is before the '=' cannot be a variable's name: write NAME=VALUE, with letters, digits and _ in NAME"
        )
    value = value.strip()
    if value[:1] in ("'", '"'):
        return name.strip(), _unquoted(value)
    return name.strip(), re.sub(r"(?:^|\s+)#.*$", "", value)


def _unquoted(text: str) -> str:
    quote, rest = text[0], iter(range(1, len(text)))
    found: list[str] = []
    for at in rest:
        char = text[at]
        if char == quote:
            after = text[at + 1 :].strip()
            if after and not after.startswith("#"):
                raise ValueError(f"there is more after the closing {quote}: put all of the value between the quotes")
            return "".join(found)
        if char == "\\" and quote == '"' and at + 1 < len(text):
            char = text[next(rest)]
            char = _ESCAPES.get(char, char if char in '"\\$`' else "\\" + char)
        found.append(char)
    raise ValueError(
        f"the {quote} at the beginning of the value is never closed: a value ends in the line it begins in"
    )
