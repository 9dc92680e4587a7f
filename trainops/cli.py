"""The command ``trainops``: presents what the Python API returns."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import click

import trainops
from trainops.errors import TrainopsError, WrongExtravars
from trainops.results import Reason, Result

EXIT_CODES = {
    Reason.OK: 0,
    Reason.FAILED: 1,
    Reason.UNREACHABLE: 3,
    Reason.DEADLINE: 4,
    Reason.INCOMPLETE: 5,
    Reason.CANCELED: 130,
}
USAGE_ERROR = 2
_JSON = "--json"

_EPILOG = """\b
Exit status:
  0  all is well
  1  a host failed, or nothing could be done
  2  the command line, a playbook or an inventory is wrong
  3  a host could not be reached (and none failed)
  4  not finished within --timeout
  5  ansible-playbook ended without its account of what it did
  130  canceled (Ctrl-C or SIGTERM)
"""

Function = TypeVar("Function", bound=Callable[..., None])


@dataclass(frozen=True)
class Extravars:
    """What the options ``-e`` named: files, and values that win over them."""

    files: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


def read_extravars(texts: Sequence[str]) -> Extravars:
    """Read ``@FILE``, a JSON or YAML mapping, or ``name=value`` words, as ansible-playbook's ``-e`` takes them.

    Raises WrongExtravars.
    """
    import shlex

    read = Extravars()
    for text in texts:
        if text.startswith("@"):
            read.files.append(str(Path(text[1:]).expanduser()))
        elif text.lstrip().startswith("{"):
            read.values.update(_mapping(text))
        else:
            try:
                words = shlex.split(text)
            except ValueError as error:
                raise WrongExtravars(f"-e {text!r}: {error}") from error
            for word in words:
                name, equals, value = word.partition("=")
                if not equals:
                    raise WrongExtravars(f"-e {text!r}: {word!r} is not NAME=VALUE (nor @FILE, nor a JSON mapping)")
                read.values[name] = value
    return read


def _mapping(text: str) -> dict[str, Any]:
    import yaml

    try:
        loaded = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise WrongExtravars(f"-e {text!r} is neither JSON nor YAML: {error}") from error
    if not isinstance(loaded, dict):
        raise WrongExtravars(f"-e {text!r} is no mapping")
    return loaded


def _shared_options(function: Function) -> Function:
    options = (
        click.option(
            "-i",
            "--inventory",
            multiple=True,
            metavar="PATH",
            help="Inventory instead of the one of ansible.cfg; may be repeated.",
        ),
        click.option("-l", "--limit", metavar="PATTERN", help="Only these hosts, as in ansible-playbook."),
        click.option("-C", "--check", is_flag=True, help="Show what would happen and change nothing."),
        click.option("-D", "--diff", is_flag=True, help="Show how text files change."),
        click.option(
            "-e", "--extra-vars", multiple=True, metavar="VARS", help="name=value, JSON, or @FILE; may be repeated."
        ),
        click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End it then."),
        click.option(_JSON, "as_json", is_flag=True, help="Print the result as JSON, the lines on standard error."),
        click.option("-v", "--verbose", count=True, help="More lines; -vv with results, -vvv with tracebacks."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@contextlib.contextmanager
def _mistakes_told(as_json: bool) -> Iterator[None]:
    """Whoever reads JSON reads it of a wrong command line too; click says it on standard error."""
    try:
        yield
    except click.UsageError as error:
        if as_json:
            _print_mistake("usage", error.format_message())
        raise


def _print_mistake(reason: str, message: str) -> None:
    print(json.dumps({"ok": False, "reason": reason, "message": message}, indent=2))


class _Group(click.Group):
    """Commands whose mistakes of use are JSON as well where that is asked for."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        as_json = _JSON in args
        with _mistakes_told(as_json):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[_JSON] = as_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with _mistakes_told(ctx.meta[_JSON]):
            return super().invoke(ctx)


@click.group(
    cls=_Group, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(version("trainops"), "--version", prog_name="trainops")
def main() -> None:
    """Check and release GPU training scripts in Proxmox VE LXC containers.

    Run it in a folder with inventory.yml and ansible.cfg.
    """


@main.command(epilog=_EPILOG)
@_shared_options
def deploy(**options: Any) -> None:
    """Check the scripts, make them live, and say who holds the GPUs.

    Runs deploy_training.yml of the current folder, or the collection's playbook of that name.
    """
    _present(trainops.deploy, options)


@main.command(epilog=_EPILOG)
@_shared_options
def rollback(**options: Any) -> None:
    """Go back to the release that was live before.

    Runs rollback_training.yml of the current folder, or the collection's playbook of that name.
    """
    _present(trainops.rollback, options)


def _present(operation: Callable[..., Result], options: dict[str, Any]) -> None:
    """Run one operation of the API, print its lines as they come, and end with the status that fits."""
    as_json = options["as_json"]
    stream = sys.stderr if as_json else sys.stdout
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    try:
        extravars = read_extravars(options["extra_vars"])
        result = operation(
            inventory=list(options["inventory"]) or None,
            limit=options["limit"],
            extravars=extravars.values,
            extravars_files=extravars.files,
            check=options["check"],
            diff=options["diff"],
            timeout=options["timeout"],
            verbosity=options["verbose"],
            color=stream.isatty(),
            on_output=lambda text: print(text, file=stream, flush=True),
        )
    except TrainopsError as error:
        if as_json:
            _print_mistake("usage", str(error))
        print(f"trainops: {error}", file=sys.stderr)
        sys.exit(USAGE_ERROR)
    except KeyboardInterrupt:
        if as_json:
            _print_mistake(Reason.CANCELED, "canceled")
        print("trainops: canceled", file=sys.stderr)
        sys.exit(EXIT_CODES[Reason.CANCELED])
    if as_json:
        print(json.dumps(result.as_dict(), indent=2))
    elif result.reason in (Reason.DEADLINE, Reason.INCOMPLETE):
        print(f"trainops: {result.message}", file=sys.stderr)
    sys.exit(EXIT_CODES[result.reason])


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
