# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The exchange: one remote command in which a step of ours and the worker in the container talk to each other.

The controller sends the worker's sources and one request; the operation answers with frames, to each of which the step
may send frames and files back; a result or an error ends it. Input of any size streams in bounded memory. The command's
own exit status plays no part: only a result frame is a success.
"""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.channel import QUIET_SECONDS
from ansible_collections.trainops.proxmox.plugins.plugin_utils.enter import Report, View, inner, read_report
from ansible_collections.trainops.proxmox.plugins.plugin_utils.errors import StepError
from ansible_collections.trainops.proxmox.plugins.plugin_utils.frames import Frame
from ansible_collections.trainops.proxmox.plugins.plugin_utils.hops import Failure
from ansible_collections.trainops.proxmox.plugins.plugin_utils.pipes import ended
from ansible_collections.trainops.proxmox.plugins.plugin_utils.reader import ENDLESS, NO_SIGN, Progress, Reader
from ansible_collections.trainops.proxmox.plugins.plugin_utils.sender import Sender
from ansible_collections.trainops.proxmox.plugins.plugin_utils.sources import boot_source, packed_sources
from ansible_collections.trainops.proxmox.plugins.plugin_utils.visible import visible

_MAX_DETAILS = 256 * 1024
_ATTEMPTS = 4
# nvidia-smi has its own deadline in a view; what else it does, and a child that does not end, take a few seconds more.
_VIEW_SECONDS = 10.0


# What ssh says beside, of an address that known_hosts has under another name.
_OF_SSH = "Warning: Permanently added "


@dataclass(frozen=True)
class Request:
    """One operation of the worker.

    ``params`` may be a function that gives them, which is called while the worker starts; what it raises ends the
    exchange. ``timeout`` bounds the whole exchange in seconds. ``quiet`` is after how many seconds without a sign of
    life from here the worker gives up by itself; 0 for never. ``unsure`` is a sentence for when the worker was lost,
    where running the operation again is not the thing to do. ``view`` is a script that the same remote command runs on
    the node beside the operation. ``view_for`` is the kind of frame whose answer needs that view: the frame then
    reaches the step when the view is there, or given up, and has it as ``node_view``, None where no node was asked.
    """

    operation: str
    params: dict[str, Any] | Callable[[], dict[str, Any]]
    python: str = "/usr/bin/python3"
    timeout: float = 600.0
    view: View | None = None
    view_for: str = ""
    quiet: float = QUIET_SECONDS
    unsure: str = ""


@dataclass(frozen=True)
class Reply:
    """An operation's result, and the node's view as raw text where it was asked for."""

    result: dict[str, Any]
    node_view: str | None = None


class Session(Protocol):
    """A started remote (or local) command whose stdin, stdout and stderr are pipes of ours.

    ``place`` is where the worker belongs, for messages.
    """

    process: subprocess.Popen[bytes]
    place: str

    def ending(self, report: Report, begun: bool) -> int | None:
        """The exit status with which the worker's Python left, 128 + N for signal N; None when it was never started.

        ``begun`` says that the worker was heard: its words on stderr tell nothing of the way then.
        """

    def failure(self, report: Report, begun: bool) -> Failure:
        """Why it was never started, or how it was lost."""


class Connection(Protocol):
    """What the exchange needs of a connection plugin."""

    def open_session(
        self, argv: Sequence[str], nonce: str, view: View | None
    ) -> contextlib.AbstractContextManager[Session]:
        """Run ``argv`` where the worker belongs."""


Answer = Callable[[dict[str, Any]], Iterable[Frame]]


class ConnectionLost(AnsibleConnectionFailure):
    """The conversation broke off after the worker's hello: what the operation did meanwhile is not known."""


class _NotStarted(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def no_answer(frame: dict[str, Any]) -> Iterable[Frame]:
    """For operations that ask nothing back."""
    raise AnsibleError(f"unexpected frame {frame.get('kind')!r} from the worker")


def exchange(connection: Any, request: Request, answer: Answer = no_answer, progress: Progress | None = None) -> Reply:
    """Run one operation over ``connection`` (``trainops.proxmox.pct`` or ``local``) and return its result.

    Only a failure before the worker said hello is tried again, so no operation ever runs twice.

    Raises AnsibleConnectionFailure (naming the hop) when the worker could not be reached, ConnectionLost (which is one)
    when it was lost, StepError for an expected failure of the operation, SourceChanged when a file changed while it was
    sent.
    """
    way = _way(connection)
    for attempt in range(_ATTEMPTS):
        try:
            return _converse(way, request, answer, progress)
        except _NotStarted as error:
            if not error.failure.retry or attempt == _ATTEMPTS - 1:
                raise AnsibleConnectionFailure(error.failure.message) from error
            # Refused connections come in bursts when many hosts share a node: spread the next try.
            time.sleep(random.uniform(0.1, 0.4) * 2**attempt)
    raise AnsibleConnectionFailure("no attempt was made")


def _way(connection: Any) -> Connection:
    if hasattr(connection, "open_session"):
        way: Connection = connection
        return way
    if connection.transport == "local":
        return _Local()
    raise AnsibleError(
        f"this step needs the connection trainops.proxmox.pct, but the host's is {connection.transport!r}: "
        "set ansible_connection: trainops.proxmox.pct in the vars of the group of containers"
    )


class _LocalSession:
    place = "on the controller"

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def ending(self, report: Report, begun: bool) -> int | None:
        code = self.process.returncode
        return 128 - code if code < 0 else code

    def failure(self, report: Report, begun: bool) -> Failure:
        return Failure("python-failed", report.text)


class _Local:
    """The worker on the controller itself: steps that need no container use the same code."""

    @contextlib.contextmanager
    def open_session(self, argv: Sequence[str], nonce: str, view: View | None) -> Iterator[Session]:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        except OSError as error:
            place, how = _LocalSession.place, str(error.strerror)
            raise _NotStarted(Failure("no-python", _no_worker(place, argv[0], 127, how))) from error
        with ended(process):
            yield _LocalSession(process)


def _drive(
    reader: Reader, sender: Sender, request: Request, answer: Answer, view: Callable[[], str | None]
) -> dict[str, Any] | None:
    """Send the request and answer frames until the result; None when the conversation broke off."""
    try:
        sender.begin(packed_sources(request.operation))
        params = request.params() if callable(request.params) else request.params
        sender.send(Frame("request", {"operation": request.operation, "params": params, "quiet": request.quiet}))
        while True:
            frame = reader.frames.get()
            if frame is None:
                return None
            if frame["kind"] == request.view_for:
                frame["node_view"] = view()
            if frame["kind"] == "result":
                value: dict[str, Any] = frame["value"]
                return value
            if frame["kind"] == "error":
                raise _refusal(frame)
            for reply in _answers(answer, frame):
                sender.send(reply)
    except BrokenPipeError:
        return _last_word(reader)


def _last_word(reader: Reader) -> dict[str, Any] | None:
    """A worker that refused in the middle of a stream has closed its end; its reason is already on the way."""
    reader.join()
    while (frame := reader.frames.get()) is not None:
        if frame["kind"] == "error":
            raise _refusal(frame)
    return None


def _refusal(frame: dict[str, Any]) -> StepError:
    """The worker's error; details of a size that no error has are left out."""
    details = frame["details"]
    if len(json.dumps(details)) > _MAX_DETAILS:
        details = {}
    return StepError(visible(frame["code"]), visible(frame["message"]), details)


def _answers(answer: Answer, frame: dict[str, Any]) -> Iterator[Frame]:
    """The step's answer to a frame; a frame that the step cannot make sense of is the worker's fault."""
    try:
        yield from answer(frame)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        kind = visible(frame["kind"])
        raise AnsibleConnectionFailure(
            f"in the container: the worker's {kind!r} is not as agreed ({error!r})"
        ) from error


def _converse(way: Connection, request: Request, answer: Answer, progress: Progress | None) -> Reply:
    nonce = secrets.token_hex(8)
    argv = [request.python, "-B", "-c", boot_source(), inner(nonce), f"{request.timeout:g}"]
    with way.open_session(argv, nonce, request.view) as session:
        sender = Sender(session.process)
        rest = request.view.deadline + _VIEW_SECONDS if request.view else 0.0
        reader = Reader(session.process, inner(nonce), request.timeout + 5, progress, sender.beat, rest)
        reader.start()

        def view() -> str | None:
            if request.view is None or isinstance(way, _Local):
                return None
            stderr = reader.wait_for(f"{nonce} view === end\n".encode("ascii"), request.view.deadline + _VIEW_SECONDS)
            return "\n".join(read_report(stderr, nonce)[0].view)

        try:
            result = _drive(reader, sender, request, answer, view)
        except BaseException:
            session.process.kill()
            reader.join()  # before the streams that it reads are closed, and their numbers are others'
            raise
        sender.close()
        reader.join()
        session.process.wait()
        if result is None:
            report, _rest = read_report(bytes(reader.stderr), nonce)
            raise _lost(session, reader, report, request)
        return Reply(result, view())


def _lost(session: Session, reader: Reader, report: Report, request: Request) -> Exception:
    """Why there is no result: the way, the interpreter, the worker or what it worked on."""
    status = session.ending(report, reader.hello)
    if status is None and not reader.broken:
        failure = session.failure(report, reader.hello)
        return ConnectionLost(_first(failure.message, request.unsure)) if reader.hello else _NotStarted(failure)
    lines = [line for line in report.text.strip().splitlines() if not line.startswith(_OF_SSH)]
    how = f"{reader.broken}, so it was ended" if reader.broken else _ending(status or 0)
    said = f". It said: {visible(lines[-1])}" if lines else ""
    if not reader.hello:
        if reader.broken and not report.entered and not isinstance(session, _LocalSession):
            return AnsibleConnectionFailure(_no_way(session.place, how + said, reader.broken != ENDLESS))
        if reader.broken and reader.broken != ENDLESS:
            return AnsibleConnectionFailure(_no_word(session.place, request.python, how + said))
        return AnsibleConnectionFailure(_no_worker(session.place, request.python, status, how + said))
    if reader.at and status and status > 128 and not reader.broken:
        text = f"{visible(reader.at)}: {request.python} crashed on it {session.place} ({how}){said}"
        return StepError("crash", text)
    ask = _ask(reader, status, request.unsure)
    return ConnectionLost(f"{session.place}: the worker ended without a result ({how}): {ask}{said}")


def _first(failure: str, unsure: str) -> str:
    return f"{failure}. But first: {unsure}" if unsure else failure


def _ask(reader: Reader, status: int | None, unsure: str) -> str:
    """What to look at when a worker was lost in the middle of its work."""
    then = unsure[:1].upper() + unsure[1:]
    if reader.broken == NO_SIGN:
        return f"is the container frozen, or the link to its node down? {then or 'Run again when it is not'}"
    if not reader.broken and status == 128 + signal.SIGKILL:
        return f"was the container stopped, or its memory used up (dmesg on the node)? {then or 'Run again'}"
    return unsure or "run again"


def _no_worker(place: str, python: str, status: int | None, how: str) -> str:
    fix = "set training_python (or the module's option python) to the interpreter that trains"
    if not python:
        return f"{place}: no interpreter is named: {fix}"
    if status in (126, 127):
        return f"{place}: there is no Python at {python}: {fix}"
    return f"{place}: {python} did not start the worker, which takes a Python 3.9 or newer ({how}): {fix}"


def _no_word(place: str, python: str, how: str) -> str:
    return (
        f"{place}: {python} was started and nothing came of it ({how}): is the container frozen (lxc-unfreeze) or the "
        "link to its node down? Where this comes every time, that Python waits for something at its start: set "
        "training_python (or the module's option python) to the interpreter that trains"
    )


def _no_way(place: str, how: str, silent: bool) -> str:
    files = "startup files (.bashrc, .profile, /etc/profile.d)"
    if silent:
        return (
            f"{place}: the node stopped answering on the way there ({how}): most likely the link to it is down. Where "
            f"this comes every time, the {files} of its login shell wait for something: see that they do not where no "
            "terminal is"
        )
    return (
        f"{place}: the node's login shell did not get to the command on the way there ({how}): see that its {files} "
        "do not print without end where no terminal is"
    )


def _ending(status: int) -> str:
    if status <= 128:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        return f"signal {status - 128}, {signal.Signals(status - 128).name}"
    return f"signal {status - 128}"
