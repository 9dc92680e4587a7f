"""Run a playbook from Python and get a typed result: ansible-runner, used so that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import queue
import re
import shlex
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainops import processes
from trainops.core import check_core
from trainops.errors import (
    AnsibleMissing,
    FolderNotFound,
    NoTemporaryFolder,
    PlaybookNotFound,
    WrongExtravars,
    WrongOption,
)
from trainops.inventories import configured, host_names, hosts_in, named, require_readable
from trainops.private import private_folder, why_full
from trainops.results import Ending, Interrupted, Reason, Result, read_result, under_way
from trainops.values import written

COLLECTION = "trainops.proxmox"

_POLL_SECONDS = 0.25
_PATIENCE_SECONDS = 5.0  # for ansible-playbook to end by itself once it has given its account
_MAX_RESULT_CHARACTERS = 64 * 1024 * 1024
# Of what steps print while they work; a log that is followed for days would otherwise fill the memory.
_MAX_KEPT_CHARACTERS = 1024 * 1024
_SHORT_PATH = 48  # of a folder in which sockets still have names that fit into 107 bytes
_NOT_FOUND = "could not be found"
_FULL = re.compile(rf"\[Errno ({errno.ENOSPC}|{errno.EDQUOT})\]")
_MOST_NAMED = 20
_NO_MATCH, _NOBODY = "Could not match supplied host pattern", "leaves us with no hosts to target"

Inventory = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Mapping[str, Any]
Output = Callable[[str], None]


@dataclass(frozen=True)
class _Order:
    """One run, ready to go: everything checked, every path absolute."""

    playbook: str
    cwd: Path
    arguments: list[str]
    inventory: str | None  # one that is given as values, as YAML; it travels as a private file
    extravars: str
    timeout: float | None
    canceled: Callable[[], bool]
    environment: dict[str, str]
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)


def run_playbook(
    name: str | os.PathLike[str],
    inventory: Inventory | None = None,
    limit: str | None = None,
    extravars: Mapping[str, Any] | None = None,
    check: bool = False,
    *,
    diff: bool = False,
    extravars_files: Sequence[str | os.PathLike[str]] = (),
    cwd: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
    cancel: threading.Event | None = None,
    on_output: Output | None = None,
    color: bool = False,
    verbosity: int = 0,
) -> Result:
    """Run a playbook as ``ansible-playbook`` in the folder ``cwd`` would, and return what it did on each host.

    ``name`` is a file (``site.yml``), a playbook of a collection (``trainops.proxmox.deploy_training``) or a bare name
    (``deploy_training``): the file ``deploy_training.yml`` of ``cwd`` if there is one, otherwise this collection's.
    ``inventory`` is a path, several, hosts with commas, or groups as values, as a YAML inventory has them; None means
    the one of ``ansible.cfg``. ``extravars`` win over ``extravars_files``; they and an inventory of values travel in
    private files, never on a command line. ``timeout`` is in seconds.
    Setting ``cancel`` ends the run. ``on_output`` gets each printed line as it comes, from a thread of its own: taking
    its time delays only the return, and what it raises is raised once the run has ended. Questions on the terminal
    (vault or login passwords) cannot be answered.

    Whatever happens, no process and no file of the run is left when this returns or raises; a run that went badly is a
    result, not an exception. May be called in any thread.

    An empty ``limit`` or list of inventories is refused: Ansible would run on all hosts.

    Raises FolderNotFound, PlaybookNotFound, InventoryNotFound, WrongInventory, WrongExtravars, WrongOption,
    AnsibleMissing; an interrupt is raised as Interrupted, a KeyboardInterrupt that tells what had been done.
    """
    folder = _folder(cwd)
    check_core()
    sources = [] if isinstance(inventory, Mapping) else named(inventory, folder)
    sources_read = sources or (configured(folder, os.environ) if inventory is None else [])
    require_readable(sources_read)
    order = _Order(
        playbook=find_playbook(os.fspath(name), folder),
        cwd=folder,
        arguments=[
            *(f"--inventory={source}" for source in sources),
            *([] if limit is None else [f"--limit={_limited(limit, folder)}"]),
            *_arguments(check, diff, verbosity),
            *(f"--extra-vars=@{_existing(path, folder)}" for path in extravars_files),
        ],
        inventory=_written(inventory, "inventory") if isinstance(inventory, Mapping) else None,
        extravars=_written(_named(extravars or {}), "extravars"),
        timeout=_seconds(timeout),
        canceled=cancel.is_set if cancel else lambda: False,
        environment=_environment(color),
    )
    held = _Held(on_output)
    result = _result(order, _Events(held.take if on_output and limit is not None else on_output), check)
    if limit is not None and result.rc == 1 and not result.hosts and _NOBODY in result.message:
        there = list(hosts_in(inventory)) if isinstance(inventory, Mapping) else host_names(sources_read)
        raise WrongOption(f"limit {limit!r} names no host of the inventory: {_known(there)}")
    held.release()
    if result.rc == 1 and not result.hosts and order.playbook in result.message and _NOT_FOUND in result.message:
        raise PlaybookNotFound(f"there is no playbook {order.playbook}: is its collection installed?")
    return result


def _known(hosts: Sequence[str]) -> str:
    names = list(dict.fromkeys(hosts))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"there are {', '.join(names[:_MOST_NAMED])}{more}" if names else "ansible-inventory --graph shows all"


def _result(order: _Order, events: _Events, check: bool) -> Result:
    """What a run came to. Raises Interrupted with what had come of it by then."""
    started = time.monotonic()
    try:
        rc, aborted, lost = _run(order, events)
    except KeyboardInterrupt as interrupt:
        ending = Ending(None, Reason.CANCELED, time.monotonic() - started)
        so_far = read_result(events.all, ending, order.playbook, check)
        raise Interrupted(so_far, under_way(events.all)) from interrupt
    ending = Ending(rc, aborted, time.monotonic() - started, lost)
    return read_result(events.all, ending, order.playbook, check)


def find_playbook(name: str, cwd: Path) -> str:
    """The playbook that ``name`` means in the folder ``cwd``: an absolute path, or a collection's playbook as it is.

    Raises PlaybookNotFound.
    """
    if name.endswith((".yml", ".yaml")) or os.sep in name:
        path = cwd / name
        if not path.is_file():
            raise PlaybookNotFound(f"there is no playbook {path}")
        return str(path)
    if "." not in name:
        own = cwd / f"{name}.yml"
        if own.is_file():
            return str(own)
        name = f"{COLLECTION}.{name}"
    if not all(part.isidentifier() for part in name.split(".")):
        raise PlaybookNotFound(f"{name!r} is no playbook: name a file (site.yml) or one of a collection (a.b.site)")
    if name.startswith(f"{COLLECTION}.") and name.removeprefix(f"{COLLECTION}.") not in _own_playbooks():
        known = ", ".join(f"{COLLECTION}.{playbook}" for playbook in _own_playbooks())
        raise PlaybookNotFound(f"there is no playbook {name}; there are: {known}")
    return name


def _own_playbooks() -> list[str]:
    from importlib.resources import files

    folder = files(f"ansible_collections.{COLLECTION}").joinpath("playbooks")
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return sorted(name.removesuffix(".yml") for name in names if name.endswith(".yml"))


def _folder(cwd: str | os.PathLike[str] | None) -> Path:
    folder = Path("." if cwd is None else cwd).absolute()
    if cwd is not None and not os.fspath(cwd):
        raise FolderNotFound("cwd is empty: name a folder, or leave it out for the current one")
    if not folder.is_dir():
        raise FolderNotFound(f"there is no folder {folder}")
    return folder


def _limited(limit: str, cwd: Path) -> str:
    """The limit as it is. Raises WrongOption for one that names nobody, by which Ansible means everybody."""
    for pattern in re.split(r"[,:\s]+", limit):
        if pattern.startswith("@"):
            try:
                named = bool((cwd / pattern[1:]).read_text().strip())
            except (OSError, ValueError) as error:
                raise WrongOption(f"limit {limit!r}: {cwd / pattern[1:]} cannot be read: {error}") from error
            if named:
                return limit
        elif pattern:
            return limit
    raise WrongOption(
        f"limit {limit!r} names no host, by which Ansible would mean every host: name hosts or groups, "
        "or leave the limit out (for all)"
    )


def _seconds(timeout: float | None) -> float | None:
    if timeout is not None and not 0 < timeout < math.inf:
        raise WrongOption(f"timeout {timeout}: it is a number of seconds above 0")
    return timeout


def _existing(path: str | os.PathLike[str], cwd: Path) -> str:
    if not (cwd / path).is_file():
        raise WrongExtravars(f"there is no file of variables {cwd / path}")
    return str(cwd / path)


def _arguments(check: bool, diff: bool, verbosity: int) -> list[str]:
    if verbosity < 0:
        raise WrongOption(f"verbosity {verbosity}: it is 0 or more")
    return [
        *(["--check"] if check else []),
        *(["--diff"] if diff else []),
        *(["-" + "v" * verbosity] if verbosity else []),
    ]


def _named(extravars: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in extravars:
        if not str(name).isidentifier():
            raise WrongExtravars(f"{name!r} is no name for a variable: letters, digits and underscores, no digit first")
    return extravars


def _written(values: Mapping[str, Any], what: str) -> str:
    try:
        return written(values)
    except (TypeError, ValueError) as error:
        raise WrongExtravars(f"{what} must be JSON values (texts, numbers, lists, dicts): {error}") from error


def _environment(color: bool) -> dict[str, str]:
    """The environment of ansible-playbook beside the caller's own."""
    folder = Path(sys.executable).parent
    path = os.environ.get("PATH", os.defpath)
    if (folder / "ansible-playbook").exists():
        path = f"{folder}{os.pathsep}{path}"
    if shutil.which("ansible-playbook", path=path) is None:
        raise AnsibleMissing(f"there is no ansible-playbook beside {sys.executable} nor on PATH: install ansible-core")
    environment = {
        "PATH": path,
        "ANSIBLE_STDOUT_CALLBACK": os.environ.get("ANSIBLE_STDOUT_CALLBACK", f"{COLLECTION}.summary"),
        # ansible-runner drops a larger result, for instance the list of a release's files, without a word.
        "MAX_EVENT_RES": str(_MAX_RESULT_CHARACTERS),
    }
    locale = next((os.environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(name)), "")
    if "utf" not in locale.lower():
        environment["LC_ALL"] = "C.UTF-8"  # cron and some services have none, and Ansible refuses any other
    return environment if color else {**environment, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}


class _Held:
    """Keeps back what Ansible says of a limit that names nobody, until it is known whether that is all it says."""

    def __init__(self, on_output: Output | None) -> None:
        self._on_output = on_output
        self._lines: list[str] = []

    def take(self, text: str) -> None:
        """A printed line."""
        if any(known in text for known in (_NO_MATCH, _NOBODY)):
            self._lines.append(text)
        else:
            self.release()
            self._say(text)

    def release(self) -> None:
        """Say what was kept back."""
        lines, self._lines = self._lines, []
        for line in lines:
            self._say(line)

    def _say(self, text: str) -> None:
        if self._on_output:
            self._on_output(text)


class _Events:
    """Collects events. Taking one costs its sender nothing, whatever the listener does with the line."""

    def __init__(self, on_output: Output | None) -> None:
        self.all: list[dict[str, Any]] = []
        self.accounted = False  # whether ansible-playbook has given its account, the last thing that it does
        self.full = ""  # what the system said of a disk on which ansible-playbook could not write its account
        self._on_output = on_output
        self._refused: Exception | None = None
        self._kept = 0
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, event: dict[str, Any]) -> bool:
        """ansible-runner's event handler; False means that it need not keep a file of the event."""
        if event.get("event") != "verbose" or self._kept < _MAX_KEPT_CHARACTERS:
            self.all.append(event)
        if event.get("event") == "verbose":
            self._kept += len(str(event.get("stdout") or ""))
            full = _FULL.search(str(event.get("stdout") or ""))
            self.full = os.strerror(int(full[1])) if full else self.full
        self.accounted |= event.get("event") == "playbook_on_stats"
        if self._on_output and event.get("stdout"):
            if self._thread is None:
                # Not before the first event: ansible-playbook is forked from a process with one thread only.
                self._thread = threading.Thread(target=self._tell, daemon=True)
                self._thread.start()
            self._queue.put(str(event["stdout"]).replace("\r\n", "\n"))
        return False

    def _tell(self) -> None:
        while (text := self._queue.get()) is not None:
            if self._on_output and self._refused is None:
                try:
                    self._on_output(text)
                except Exception as error:  # whatever it is, it is the listener's own and is raised again
                    self._refused = error

    def finish(self) -> None:
        """Wait until the listener has had every line. Raises what the listener raised."""
        if self._thread:
            self._queue.put(None)
            self._thread.join()
        if self._refused is not None:
            raise self._refused


def _run(order: _Order, events: _Events) -> tuple[int | None, Reason | None, str]:
    """The status of a run, why it was ended early, if it was, and why its account is lost, if it is.

    Its events go into ``events``. Raises NoTemporaryFolder.
    """
    watch = _Watch(order, lambda: events.accounted)
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(private_folder())
            runner = _runner(order, folder, events, watch)
        except OSError as error:
            fix = f"make room in {_temporary()}, or name another folder by TMPDIR"
            raise NoTemporaryFolder(f"nothing was started, files cannot be written: {error}: {fix}") from error
        why = ""
        try:
            # ansible-runner raises it when the output does not end with the run; the events tell what is missing.
            with contextlib.suppress(_pexpect_timeout()):
                runner.run()
        except OSError as error:
            watch.end_processes()
            why = why_full(folder) or error.strerror or str(error)
        except BaseException:
            watch.end_processes()
            raise
        if not why and not events.accounted and not watch.ended:
            why = why_full(folder) or events.full
    events.finish()
    if why and not events.accounted and watch.aborted is None:
        return None, Reason.INCOMPLETE, _lost(why)
    return None if watch.ended else runner.rc, watch.aborted, ""


def _temporary() -> str:
    """The folder for temporary files as the user knows it."""
    return os.environ.get("TMPDIR") or "/tmp"


def _lost(why: str) -> str:
    return (
        f"what was done on the hosts is not known, since no account of it could be written to the temporary folder "
        f"{_temporary()}: {why}. trainops status tells what is live and what runs; make room in that folder, or name "
        "another one by TMPDIR, before you go on"
    )


def _pexpect_timeout() -> type[Exception]:
    import pexpect

    timeout: type[Exception] = pexpect.TIMEOUT
    return timeout


class _Watch:
    """ansible-runner asks it several times a second whether to stop; when so, it ends the run itself, gently first.

    ``aborted`` says why a run was ended before it was done, ``ended`` that its processes had to be ended.
    """

    def __init__(self, order: _Order, accounted: Callable[[], bool]) -> None:
        self.aborted: Reason | None = None
        self.ended = False
        self._order = order
        self._accounted = accounted
        self._masters = set(processes.masters())
        self._deadline = None if order.timeout is None else time.monotonic() + order.timeout
        self._last: float | None = None

    def __call__(self) -> bool:
        reason = None if self.ended else self._reason()
        if reason and self._accounted():
            # Everything was done: it is no more unfinished, and has a moment left to end by itself.
            self._last = self._last or time.monotonic() + _PATIENCE_SECONDS
            if time.monotonic() > self._last:
                self.end_processes()
        elif reason and processes.marked(self._order.mark):
            self.aborted = reason
            self.end_processes()
        return self.ended

    def _reason(self) -> Reason | None:
        if self._order.canceled():
            return Reason.CANCELED
        return Reason.DEADLINE if self._deadline is not None and time.monotonic() > self._deadline else None

    def end_processes(self) -> None:
        """Nothing of the run is left on this machine, however often Ctrl-C is pressed meanwhile."""
        self.ended = True
        ending = threading.Thread(target=processes.end, args=(self._order.mark, self._masters))
        ending.start()
        while ending.is_alive():
            with contextlib.suppress(KeyboardInterrupt):
                ending.join()


def _runner(order: _Order, folder: Path, events: _Events, watch: _Watch) -> Any:
    from ansible_runner import RunnerConfig
    from ansible_runner.runner import Runner

    for name in ("env", "tmp"):
        (folder / name).mkdir(mode=0o700)
    _write(folder / "env" / "extravars", order.extravars)
    # As a file, since ansible-runner takes no settings from its caller where the folder has none.
    _write(folder / "env" / "settings", json.dumps({"pexpect_timeout": _POLL_SECONDS, "suppress_output_file": True}))
    arguments = list(order.arguments)
    # What Ansible keeps for the time of a run would stay when it is ended from outside: this folder goes in any case.
    kept = {"ANSIBLE_LOCAL_TEMP": str(folder / "tmp")}
    if len(str(folder)) <= _SHORT_PATH:
        kept["TMPDIR"] = str(folder / "tmp")
    environment = {**order.environment, **kept, processes.MARK: order.mark}
    if order.inventory is not None:
        _write(folder / "hosts.yml", order.inventory)
        arguments.append(f"--inventory={folder / 'hosts.yml'}")
        environment["ANSIBLE_INVENTORY_ENABLED"] = "yaml"  # whatever a folder's ansible.cfg enables for its own
    config = RunnerConfig(
        private_data_dir=str(folder),
        project_dir=str(order.cwd),
        playbook=order.playbook,
        cmdline=shlex.join(arguments) or None,
        envvars=environment,
        quiet=True,
    )
    config.prepare()
    config.command = [*_dying_with_parent(), *config.command]
    # It would turn ssh's check of host keys off; whether to check is for the user's configuration to say.
    if "ANSIBLE_HOST_KEY_CHECKING" not in os.environ:
        config.env.pop("ANSIBLE_HOST_KEY_CHECKING", None)
    return Runner(config, event_handler=events.take, cancel_callback=watch)


def _dying_with_parent() -> list[str]:
    """What starts a command that ends when this process is killed: the hang-up of its terminal may be ignored."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM"] if setpriv else []


def _write(path: Path, text: str) -> None:
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
