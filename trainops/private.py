"""The private folder of a run, gone with it; those of runs that were killed go with the next."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "trainops-"
_LOCK = "in-use"
_ROOM_BYTES = 1 << 16  # more than the account of most steps takes


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A fresh folder that only this user can look into, for as long as the block lasts."""
    remove_abandoned(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with _locked(folder):
            yield folder
    finally:
        _remove(folder)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock that says that a folder is in use; the kernel gives it back however this process ends."""
    fresh = folder / f".{_LOCK}"
    with fresh.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        fresh.rename(folder / _LOCK)  # whoever finds it finds it locked
        yield


def why_full(folder: Path) -> str:
    """Why nothing more can be written into a folder, as the system says it; empty when it can."""
    probe = folder / "room"
    try:
        probe.write_bytes(b"x" * _ROOM_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
    return ""


def remove_abandoned(parent: Path) -> None:
    """Remove this user's folders in ``parent`` whose process was killed. They may hold variables with secrets."""
    with contextlib.suppress(OSError):
        for folder in parent.glob(f"{_PREFIX}*"):
            if folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink():
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    with contextlib.suppress(OSError), open(os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW)) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)


def _remove(folder: Path) -> None:
    """The lock last: a removal that is killed is then ended by the next one."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != _LOCK:
            path.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
