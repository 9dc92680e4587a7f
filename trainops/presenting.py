"""How the command presents results: lines or JSON on standard output, mistakes on standard error, an exit status."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import click

from trainops.errors import NoTemporaryFolder, TrainopsError
from trainops.results import Reason, Result
from trainops.values import printable

EXIT_CODES = {
    Reason.OK: 0,
    Reason.FAILED: 1,
    Reason.UNREACHABLE: 3,
    Reason.DEADLINE: 4,
    Reason.INCOMPLETE: 5,
    Reason.DIFFERS: 6,
    Reason.CANCELED: 130,
}
USAGE_ERROR = 2
JSON = "--json"

EPILOG = """\b
Exit status:
  0  all is well
  1  a host failed, or nothing could be done
  2  the command line, a playbook or an inventory is wrong
  3  a host could not be reached (and none failed)
  4  not finished within --timeout
  5  ansible-playbook ended without its account of what it did
  6  diff: something differs
  130  canceled (Ctrl-C or SIGTERM)
"""

Output = Callable[[str], None]
Told = Callable[[BaseException], str]


def print_json(values: dict[str, Any]) -> None:
    """Print one result, and nothing else goes to standard output."""
    print(json.dumps(values, indent=2), flush=True)


@contextlib.contextmanager
def mistakes_told(as_json: bool) -> Iterator[None]:
    """Whoever reads JSON reads it of a wrong command line too; click says it on standard error."""
    try:
        yield
    except click.UsageError as error:
        if as_json:
            _print_mistake("usage", error.format_message())
        raise


def _print_mistake(reason: str, message: str) -> None:
    print_json({"ok": False, "reason": reason, "message": message})


@contextlib.contextmanager
def errors_told(as_json: bool, canceled: Told = lambda _interrupt: "canceled") -> Iterator[None]:
    """A mistake in what was given ends with status 2 and its sentence, an interrupt or SIGTERM with 130.

    ``canceled`` is what is said of an interrupt.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        yield
    except TrainopsError as error:
        mistaken = not isinstance(error, NoTemporaryFolder)
        if as_json:
            _print_mistake("usage" if mistaken else Reason.FAILED, str(error))
        print(f"trainops: {error}", file=sys.stderr)
        sys.exit(USAGE_ERROR if mistaken else EXIT_CODES[Reason.FAILED])
    except OSError as error:
        if error.filename is None:  # an output has none
            _unprinted(error)
        if as_json:
            _print_mistake(Reason.FAILED, str(error))
        print(f"trainops: {error}", file=sys.stderr)
        sys.exit(EXIT_CODES[Reason.FAILED])
    except KeyboardInterrupt as interrupt:
        said = printable(canceled(interrupt))
        if as_json:
            _print_mistake(Reason.CANCELED, said)
        print(f"trainops: {said}", file=sys.stderr)
        sys.exit(EXIT_CODES[Reason.CANCELED])


@contextlib.contextmanager
def aborted() -> Iterator[None]:
    """Ctrl-C at a question is an interrupt as anywhere else."""
    try:
        yield
    except click.Abort as error:
        print(file=sys.stderr)
        raise KeyboardInterrupt from error


def present(operation: Callable[[Output, bool], Result], as_json: bool, canceled: Told) -> None:
    """Run one operation, print its lines as they come, and end with the status that fits.

    ``operation`` gets where its lines go, and whether they may be coloured; ``canceled`` is said of an interrupt.
    """
    stream = sys.stderr if as_json else sys.stdout
    with errors_told(as_json, canceled):
        result = operation(lambda text: print(text, file=stream, flush=True), stream.isatty())
        if as_json:
            print_json(result.as_dict())
        elif result.reason in (Reason.DEADLINE, Reason.INCOMPLETE):
            print(f"trainops: {printable(result.message)}", file=sys.stderr)
    sys.exit(EXIT_CODES[result.reason])


def _unprinted(error: OSError) -> None:
    """Nobody reads on, or the disk of a log file is full: what was to be done is done, and whoever asks is told."""
    with contextlib.suppress(OSError):
        print(f"trainops: the output cannot be written: {error.strerror}", file=sys.stderr)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it once more at its end
    sys.exit(EXIT_CODES[Reason.FAILED])


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
