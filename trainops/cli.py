"""The command ``trainops``: reads a command line and presents what the Python API returns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from inspect import cleandoc
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import get_completion_class

import trainops
from trainops import starting
from trainops.detaching import of_a_follower, of_a_launch, of_a_release, of_a_stop
from trainops.errors import FileExists
from trainops.extravars import read_extravars
from trainops.presenting import EPILOG, EXIT_CODES, JSON, Told, aborted, errors_told, mistakes_told, present, print_json
from trainops.report import found_text, report
from trainops.results import Result
from trainops.targets import FORM, looks_like_run, looks_like_target

Function = TypeVar("Function", bound=Callable[..., None])

_HISTORY, _HISTORY_ALONE = "--history", 20
_TARGET_HELP = f"TARGET is {FORM}."
_PYTHON = click.option("--python", metavar="PATH", help="The interpreter that trains, a path in the container.")
_NAME = click.option("--name", metavar="NAME", help="The project's name; by default that of its folder.")
_MAX_SIZE = click.option(
    "--max-size", metavar="SIZE", help="Refuse a larger project; 2GB, 1.5GiB, 0: no limit [500MB]."
)
_MAX_FILES = click.option(
    "--max-files", type=click.IntRange(min=0), metavar="NUMBER", help="Refuse one with more files; 0: no limit [5000]."
)
_AS_JSON = click.option(JSON, "as_json", is_flag=True, help="Print the result as JSON, the lines on standard error.")


def _shared_options(function: Function) -> Function:
    options = (
        click.option(
            "-i",
            "--inventory",
            multiple=True,
            type=click.Path(),
            metavar="PATH",
            help="Inventory instead of the one of ansible.cfg; may be repeated.",
        ),
        click.option("-l", "--limit", metavar="PATTERN", help="Only these hosts, as in ansible-playbook."),
        click.option("-C", "--check", "check_mode", is_flag=True, help="Show what would happen and change nothing."),
        click.option("-D", "--diff", is_flag=True, help="Show how text files change."),
        click.option(
            "-e", "--extra-vars", multiple=True, metavar="VARS", help="name=value, JSON, or @FILE; may be repeated."
        ),
        click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End it then."),
        _AS_JSON,
        click.option("-v", "--verbose", count=True, help="More lines; -vv with results, -vvv with tracebacks."),
    )
    for option in reversed(options):
        function = option(function)
    return function


class _Group(click.Group):
    """Commands whose mistakes of use are JSON as well where that is asked for."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        as_json = JSON in args
        with mistakes_told(as_json):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[JSON] = as_json
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with mistakes_told(ctx.meta[JSON]):
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order in which one needs them


class _Status(click.Command):
    """A command whose --history needs no number, not even before a target."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = [
            f"{one}={_HISTORY_ALONE}" if one == _HISTORY and looks_like_target(following) else one
            for one, following in zip(args, [*args, ""][1:], strict=True)
        ]
        return super().parse_args(ctx, given)


@click.group(
    cls=_Group, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(version("trainops"), "--version", prog_name="trainops")
def main() -> None:
    """Check, release and run GPU training scripts in Proxmox VE LXC containers.

    Begin with `trainops gpus root@NODE` and `trainops init root@NODE`; then `trainops deploy` in the folder that init
    has prepared, or with everything on the line: `trainops deploy scripts root@10.1.2.6/200:/root`. Then `trainops
    launch`, and `trainops logs -f`, `status`, `stop` and `why`.
    """


@main.command(epilog=EPILOG)
@click.argument("target", metavar="TARGET")
@click.option(
    "--project",
    "projects",
    multiple=True,
    type=click.Path(),
    metavar="PATH",
    help="What to deploy [the current folder].",
)
@click.option("--root", metavar="FOLDER", help="The folder in the container where it will appear.")
@_PYTHON
@click.option("--force", is_flag=True, help="Overwrite files that are there with other content.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="End it then.")
@_AS_JSON
def init(target: str, projects: Sequence[str], as_json: bool, force: bool, **options: Any) -> None:
    """Look at a node or container, prepare this folder.

    TARGET is [USER@]ADDRESS[:PORT] for a list of the node's containers, with /VMID to go on. Nothing is changed there;
    inventory.yml, ansible.cfg and deploy_training.yml are written here.
    """
    if sys.stderr.isatty():
        print(f"looking at {target} ...", file=sys.stderr, flush=True)
    with errors_told(as_json):
        found = starting.survey(target, projects, **options)
        try:
            written = starting.write(found, Path.cwd(), force=force) if found.ready else []
        except FileExists:
            if not as_json:
                print(found_text(found))
            raise
        if as_json:
            print_json({**found.as_dict(), "written": written})
        else:
            print(report(found, written), flush=True)
    raise SystemExit(EXIT_CODES[found.reason])


@main.command(epilog=EPILOG)
@click.argument("what", nargs=-1, type=click.Path(), metavar="[PROJECT]... [TARGET]...")
@_PYTHON
@_NAME
@_MAX_SIZE
@_MAX_FILES
@_shared_options
def deploy(what: Sequence[str], **options: Any) -> None:
    """Check the scripts, make them live, and say who holds the GPUs.

    Without arguments as the inventory of this folder says. PROJECT is a folder, or several folders and files.
    """
    projects, targets = _told_apart(what)
    _run(trainops.deploy, options, detached=_released(targets or (), options), project=projects, target=targets)


@main.command(epilog=EPILOG)
@click.argument("what", nargs=-1, type=click.Path(), metavar="[PROJECT]... [TARGET]...")
@click.option("--python", metavar="PATH", help="The interpreter: of this machine, or of the container.")
@click.option("--in-container", is_flag=True, help="By the Python of the containers of this folder's inventory.")
@_MAX_SIZE
@_MAX_FILES
@_shared_options
def check(what: Sequence[str], in_container: bool, **options: Any) -> None:
    """Check that the scripts compile and their imports resolve.

    On this machine, where modules that only a container has are warnings; with TARGET or --in-container by the
    container's own Python.
    """
    projects, targets = _told_apart(what)
    _run(trainops.check, options, project=projects, target=targets, in_container=in_container)


@main.command(epilog=EPILOG)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@_shared_options
def gpus(targets: Sequence[str], **options: Any) -> None:
    """Show GPUs and who holds them, by container.

    TARGET is [USER@]ADDRESS[:PORT] for all GPUs of a node, with /VMID for those of a container; without one, those of
    the inventory's hosts. Nothing is installed anywhere.
    """
    _run(trainops.gpus, options, target=targets or None)


@main.command(epilog=EPILOG)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--like", metavar="RUN", help="Use command and environment of an earlier run again, such as r1.")
@click.option("--gpus", metavar="WHICH", help="How many, a list (0,2), or a JMESPath expression; 0 for none [all].")
@click.option("--script", metavar="FILE", help="A script of the release to run, instead of the inventory's.")
@click.option("--args", metavar="WORDS", help="Its arguments, as one text.")
@click.option("--command", metavar="WORDS", help="What to run instead; {release} and {python} expand in it.")
@click.option("--follow/--no-follow", default=True, help="Show its log until it gives a sign of life [--follow].")
@_PYTHON
@_NAME
@_shared_options
def launch(targets: Sequence[str], **options: Any) -> None:
    """Start a run of the live release on idle GPUs.

    It outlives every connection. Its log is shown until its first values (step, loss, tokens/s) come, or what
    training_until says, or until it ends. Ctrl-C detaches and never stops it.
    """
    given = dict(options)
    _run(
        trainops.launch,
        options,
        detached=lambda interrupt: of_a_launch(targets, given, interrupt),
        target=targets or None,
    )


@main.command(epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[RUN] [TARGET]...")
@click.option("-f", "--follow", is_flag=True, help="Go on with each line as it comes, until the run ends.")
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=100, metavar="NUMBER", help="Begin so far back [100]."
)
@_PYTHON
@_NAME
@_shared_options
def logs(words: Sequence[str], **options: Any) -> None:
    """Show the log of a run, such as r1, by default of the latest.

    With -f also over connections that are lost and made again: no line is lost, none comes twice. It ends with how the
    run ended, with status 1 where that was not well. Ctrl-C detaches and never stops the run.
    """
    run, targets = _run_and_targets(words)
    given = dict(options)

    def detached(interrupt: BaseException) -> str:
        return of_a_follower(words, given, interrupt) if given["follow"] else "canceled"

    _run(trainops.logs, options, detached=detached, run=run, target=targets)


@main.command(cls=_Status, epilog=EPILOG)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option(
    _HISTORY,
    type=click.IntRange(min=0),
    is_flag=False,
    flag_value=_HISTORY_ALONE,
    metavar="[NUMBER]",
    help=f"List so many activations [5 of one host] and ended runs [5]; alone it means {_HISTORY_ALONE}.",
)
@_PYTHON
@_NAME
@_shared_options
def status(targets: Sequence[str], **options: Any) -> None:
    """Show the runs of all containers: state, age, values, GPUs and release.

    A run whose log is silent while its GPUs do nothing is shown as stalled. Of a single container also what was live
    when, who made it so, and which runs use it: what `rollback --to` can go back to.
    """
    _run(trainops.status, options, target=targets or None)


@main.command(epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[RUN|all] [TARGET]...")
@click.option("--signal", type=click.Choice(["TERM", "INT"]), help="What asks it to end [TERM].")
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Its time to save a checkpoint before it is killed [60].",
)
@_PYTHON
@_NAME
@_shared_options
def stop(words: Sequence[str], **options: Any) -> None:
    """Stop a run, such as r1, by default the only one alive.

    It is asked first and has time to save a checkpoint. Done when no process of it is left and its GPUs are free. Other
    runs, and what was started by hand, are never touched.
    """
    run, targets = _run_and_targets(words, "all")
    given = dict(options)
    _run(
        trainops.stop,
        options,
        detached=lambda interrupt: of_a_stop(words, given, interrupt),
        run=run,
        target=targets,
    )


@main.command(epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[RUN] [TARGET]...")
@_PYTHON
@_NAME
@_shared_options
def why(words: Sequence[str], **options: Any) -> None:
    """Say why a run died, such as r1, by default the latest.

    The most likely cause comes first, then the evidence: exit record, memory, errors of the GPUs in the node's kernel
    log, disks, and the last of its log.
    """
    run, targets = _run_and_targets(words)
    _run(trainops.why, options, run=run, target=targets)


@main.command(epilog=EPILOG)
@click.argument("what", nargs=-1, type=click.Path(), metavar="[PROJECT]... [TARGET]...")
@_PYTHON
@_NAME
@_MAX_SIZE
@_MAX_FILES
@_shared_options
def diff(what: Sequence[str], **options: Any) -> None:
    """Show what differs from what is live.

    What was changed, added or removed by hand in the container, and what the project on this machine has since: text as
    a diff, other files by their size. Nothing is changed. Ends with status 6 when something differs.
    """
    projects, targets = _told_apart(what)
    _run(trainops.diff, options, project=projects, target=targets)


@main.command(epilog=EPILOG)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--to", metavar="WHICH", help="An activation's number, a release id, or adopted [what was live before].")
@_PYTHON
@_NAME
@_shared_options
def rollback(targets: Sequence[str], **options: Any) -> None:
    """Go back to the release that was live before."""
    _run(trainops.rollback, options, detached=_released(targets, options), target=targets or None)


@main.command(epilog=EPILOG)
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@_PYTHON
@_NAME
@click.option("--yes", is_flag=True, help="Do not ask; where nobody is at a terminal nobody is asked.")
@_shared_options
def eject(targets: Sequence[str], yes: bool, **options: Any) -> None:
    """Turn the links in containers back into plain files.

    The files of the live release stay where they are; everything of trainops goes, earlier releases too, and with them
    what was there before the first deploy (release "adopted").
    """
    if not (yes or options["check_mode"]) and _at_a_terminal():
        where = ", ".join(targets) or options["limit"] or "all hosts of the inventory"
        question = f'{where}: earlier releases go, also "adopted" (what was there before the first deploy). Go on?'
        with errors_told(options["as_json"]), aborted():
            if not click.confirm(question, err=True):
                raise KeyboardInterrupt
    _run(trainops.eject, options, detached=_released(targets, options), target=targets or None)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete this command.

    \b
    For bash, for example:
      trainops completion bash \\
        > ~/.local/share/bash-completion/completions/trainops
    """
    complete = get_completion_class(shell)
    if complete is None:
        raise click.UsageError(f"this click completes nothing in {shell}")
    print(complete(main, {}, "trainops", "_TRAINOPS_COMPLETE").source())


for _command in (deploy, launch, logs, status, stop, why, diff, rollback, eject):
    _command.help = f"{cleandoc(_command.help or '')}\n\n{_TARGET_HELP}"


def _released(targets: Sequence[str], options: Mapping[str, Any]) -> Told:
    """What an interrupt of a command that changes releases says."""
    given = dict(options)
    return lambda interrupt: of_a_release(targets, given, interrupt)


def _at_a_terminal() -> bool:
    """Whether there is somebody who could answer a question."""
    return sys.stdin.isatty()


def _told_apart(words: Sequence[str]) -> tuple[list[str] | None, list[str] | None]:
    """The projects and the targets among the words of a command line."""
    targets = [word for word in words if looks_like_target(word) and not Path(word).exists()]
    projects = [word for word in words if word not in targets]
    return projects or None, targets or None


def _run_and_targets(words: Sequence[str], *more: str) -> tuple[str | None, list[str] | None]:
    """The run and the targets among the words of a command line; ``more`` are words that stand for a run too."""
    runs = [word for word in words if looks_like_run(word) or word in more]
    targets = [word for word in words if word not in runs]
    if len(runs) > 1:
        raise click.UsageError(f"{' and '.join(runs)}: name one run")
    if wrong := [word for word in targets if not looks_like_target(word)]:
        raise click.UsageError(f"{wrong[0]!r} is neither a run, such as r1, nor a container, {FORM}")
    return (runs[0] if runs else None), targets or None


def _run(
    operation: Callable[..., Result],
    options: dict[str, Any],
    *,
    detached: Told = lambda _interrupt: "canceled",
    **named: Any,
) -> None:
    """Run one operation of the API with the options that all commands share, and present its result.

    ``detached`` is what is said of an interrupt.
    """
    as_json = options.pop("as_json")

    def run(output: Callable[[str], None], color: bool) -> Result:
        extravars = read_extravars(options.pop("extra_vars"))
        return operation(
            inventory=list(options.pop("inventory")) or None,
            extravars=extravars.values,
            extravars_files=extravars.files,
            verbosity=options.pop("verbose"),
            check=options.pop("check_mode"),
            color=color,
            on_output=output,
            **options,
            **named,
        )

    present(run, as_json, detached)
