# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The main job, shown on the lab: python -m lab.demo

Runs the commands of a day in a copy of examples/dflash and checks after each that what it says is so. Ends with 1 when
anything is not. Containers 200, 201 and 210 are made as new before and after.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import trainops

from . import demo_runs, example
from .api import Lab, bring_up
from .errors import LabError
from .show import Show, ShowError

CONTAINERS = (200, 201, 210)
HOSTS = tuple(f"ct{vmid}" for vmid in CONTAINERS)
SCRIPTS = ("dflash_model.py", "train_dflash_pipeline.py")
BY_HAND = {
    "dflash_model.py": b"class DFlashConfig:\n    hidden = 24  # copied by hand, some day\n",
    "train_dflash_pipeline.py": b"from dflash_model import DFlashConfig\n\nprint(DFlashConfig.hidden)\n",
}
PLAYBOOK = "deploy_training.yml"


def main() -> None:
    """Play every act; exits with 1 at the first thing that is not as it should be."""
    for name in [name for name in os.environ if name.startswith("ANSIBLE_")]:
        del os.environ[name]  # the demo shows the folder's own settings
    try:
        with _stage() as (show, lab):
            _play(show, lab)
    except (LabError, ShowError) as error:
        sys.exit(f"\ndemo: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    print("\nAll of it was so. The lab stays up: python -m lab status, python -m lab down")


def _play(show: Show, lab: Lab) -> None:
    first_deploy(show, lab)
    nothing_changed(show, lab)
    one_line_edited(show, lab)
    rolled_back(show, lab)
    refused(show, lab)
    held_gpu(show, lab)
    from_python(show, lab)
    demo_runs.play(show, lab)


@contextlib.contextmanager
def _stage() -> Iterator[tuple[Show, Lab]]:
    """The lab up, its containers as new with scripts copied by hand, and a copy of the example to work in."""
    print("== The lab: two nodes, real containers, eight and two GPUs", flush=True)
    lab = bring_up()
    _as_new(lab)
    for vmid in CONTAINERS:
        for name, content in BY_HAND.items():
            _write(lab, vmid, f"/root/{name}", content)
    print(f"   lab {lab.instance.name} is up; in each of {', '.join(HOSTS)}: {' and '.join(BY_HAND)}, copied by hand")
    with tempfile.TemporaryDirectory(prefix="trainops-demo-") as temporary:
        folder = example.copy(Path(temporary) / "dflash", lab)
        try:
            yield Show(folder, "examples/dflash"), lab
        finally:
            _as_new(lab)


def _as_new(lab: Lab) -> None:
    for vmid in CONTAINERS:
        lab.container(vmid).reset()


def _write(lab: Lab, vmid: int, path: str, content: bytes) -> None:
    lab.container(vmid).run(["sh", "-c", 'cat > "$1"', "sh", path], stdin=content).check_returncode()


def _read(lab: Lab, vmid: int, path: str) -> bytes:
    done = lab.container(vmid).run(["cat", path])
    return done.stdout if done.returncode == 0 else b"(no such file)"


def _tree(lab: Lab, vmid: int) -> bytes:
    """Every file below /root with its inode, times and link target, but the venv and the lock: what moves shows."""
    left_out = ["(", "-path", "/root/venv", "-o", "-path", "/root/.trainops/*/lock", ")", "-prune"]
    look = ["find", "/root", *left_out, "-o", "-printf", r"%p %y %m %i %s %T@ %C@ %l\n"]
    return b"\n".join(sorted(lab.container(vmid).run(look).stdout.splitlines()))


def _lines(output: str, step: str) -> dict[str, str]:
    """What a step's line says, by host."""
    rows = [line.split(None, 2) for line in output.splitlines()]
    return {row[0]: row[2] for row in rows if len(row) == 3 and row[1] == step}


def _all_hosts(show: Show, output: str, step: str, text: str) -> None:
    found = _lines(output, step)
    show.claim(f"{step}: {text!r} on {', '.join(HOSTS)}", all(text in found.get(host, "") for host in HOSTS), output)


def _same_bytes(show: Show, lab: Lab, what: str, expected: dict[str, bytes]) -> None:
    for vmid in CONTAINERS:
        for name, content in expected.items():
            found = _read(lab, vmid, f"/root/{name}")
            if found != content:
                raise ShowError(f"{name} in {vmid} is not {what}: {found[:200]!r}")
    show.claim(f"{', '.join(expected)} under /root of {', '.join(HOSTS)} are, byte by byte, {what}", True)


def _local(show: Show) -> dict[str, bytes]:
    return {name: (show.folder / name).read_bytes() for name in SCRIPTS}


def first_deploy(show: Show, lab: Lab) -> None:
    """Over files that were copied by hand."""
    show.act("The first deploy, over files that were copied by hand")
    output = show.run("ansible-playbook", PLAYBOOK)
    _all_hosts(show, output, "check", "2 files compile")
    _all_hosts(show, output, "release", "live at /root")
    _all_hosts(show, output, "gpus", "no holder")
    _same_bytes(show, lab, "those of the folder", _local(show))
    output = show.run("trainops", "deploy", "--limit", "ct200", "--json", loud=False)
    gpus = json.loads(output)["hosts"]["ct200"]["steps"][-1]["values"]["gpus"]
    for gpu in gpus:
        show.note(f"GPU {gpu['index']}  {gpu['uuid']}  {gpu['verdict']}")
    inside = lab.container(200).run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]).stdout.decode()
    show.claim("8 idle GPUs in ct200", [gpu["verdict"] for gpu in gpus] == ["idle"] * 8, gpus)
    show.claim("with the UUIDs that nvidia-smi gives there", [gpu["uuid"] for gpu in gpus] == inside.split(), inside)


def nothing_changed(show: Show, lab: Lab) -> None:
    """The same again."""
    show.act("The same again: nothing changes")
    before = {vmid: _tree(lab, vmid) for vmid in CONTAINERS}
    output = show.run("ansible-playbook", PLAYBOOK)
    _all_hosts(show, output, "release", "nothing changed")
    show.claim("no file of any container was touched", before == {vmid: _tree(lab, vmid) for vmid in CONTAINERS})


def one_line_edited(show: Show, lab: Lab) -> None:
    """One line edited, shown before it is done."""
    show.act("One line edited")
    script = show.folder / "dflash_model.py"
    script.write_text(script.read_text().replace("hidden: int = 24", "hidden: int = 32"))
    before = _tree(lab, 200)
    output = show.run("ansible-playbook", PLAYBOOK, "--check", "--diff", "--limit", "ct200")
    show.claim("--check --diff shows the line", "-    hidden: int = 24\n+    hidden: int = 32\n" in output, output)
    show.claim("and changes nothing", _tree(lab, 200) == before)
    output = show.run("ansible-playbook", PLAYBOOK)
    _all_hosts(show, output, "release", "1 changed")
    _same_bytes(show, lab, "those of the folder", _local(show))


def rolled_back(show: Show, lab: Lab) -> None:
    """Back by one, then to what was there before any of it."""
    show.act("Rolled back: by one, and to the files copied by hand")
    edited = _local(show)
    output = show.run("trainops", "rollback")
    show.claim("the release from before the edit is live", output.count("live again") == len(HOSTS), output)
    original = {name: (example.EXAMPLE / name).read_bytes() for name in SCRIPTS}
    show.claim("which differs from the edited one", original != edited)
    _same_bytes(show, lab, "those from before the edit", original)
    show.run("ansible-playbook", "trainops.proxmox.rollback_training", "-e", "training_rollback_to=adopted")
    _same_bytes(show, lab, "those copied by hand", BY_HAND)
    show.run("ansible-playbook", PLAYBOOK)
    _same_bytes(show, lab, "those of the folder", edited)


def refused(show: Show, lab: Lab) -> None:
    """A syntax error, and an import of what is no longer there."""
    model, trainer = (show.folder / name for name in SCRIPTS)
    importing = next(line for line in trainer.read_text().splitlines() if line.startswith("from dflash_model import"))
    _refused(
        show,
        lab,
        "A syntax error",
        (trainer, "def main() -> None:\n", "def main() -> None\n"),
        f"{trainer.name}:{_number(trainer, 'def main() -> None:')}:",
    )
    _refused(
        show,
        lab,
        "The training script imports a name that the model file no longer has",
        (model, "DFlashConfig", "DraftConfig"),
        f"{trainer.name}:{_number(trainer, importing)}:1: {model.name} has no name DFlashConfig",
    )


def _refused(show: Show, lab: Lab, title: str, edit: tuple[Path, str, str], expected: str) -> None:
    show.act(f"{title}: refused before anything moves")
    path, old, new = edit
    good = path.read_text()
    path.write_text(good.replace(old, new))
    before = {vmid: _tree(lab, vmid) for vmid in CONTAINERS}
    output = show.run("ansible-playbook", PLAYBOOK, status=2)
    refusals = _lines(output, "check")
    named = all("FAILED" in refusals.get(host, "") and expected in refusals[host] for host in HOSTS)
    show.claim(f"{expected!r} is named on {', '.join(HOSTS)}", named, output)
    show.claim("no release and no GPU step was begun", not _lines(output, "release") and not _lines(output, "gpus"))
    show.claim("no file of any container was touched", before == {vmid: _tree(lab, vmid) for vmid in CONTAINERS})
    path.write_text(good)


def _number(path: Path, line: str) -> int:
    return path.read_text().splitlines().index(line) + 1


def held_gpu(show: Show, lab: Lab) -> None:
    """Seen from 200, held in 201, which 200 cannot look into."""
    show.act("A GPU held from 201, seen from 200")
    with lab.hold(201, gpu=1, mib=5000) as line:
        show.note(f"in 201: {line}")
        output = show.run("ansible-playbook", PLAYBOOK, "--limit", "ct200")
        text = _lines(output, "gpus")["ct200"]
        show.claim("reported on ct200 with its holder", "7 of 8 idle" in text and "vmid 201" in text, text)
        result = show.python(
            "trainops.deploy(limit='ct200').hosts['ct200'].step('gpus').values['gpus'][5]['processes']",
            lambda: trainops.deploy(cwd=show.folder, limit="ct200"),
        )
        (process,) = _gpus(result)[5]["processes"]
        show.note(json.dumps(process))
        _confirm(show, lab, process)
        show.act("The same with training_require_idle: refused")
        output = show.run(
            "ansible-playbook", PLAYBOOK, "--limit", "ct200", "-e", "training_require_idle=true", status=2
        )
        show.claim("with the holder in the message", "FAILED" in output and "201" in output, output)
    output = show.run("ansible-playbook", PLAYBOOK, "--limit", "ct200", "-e", "training_require_idle=true")
    show.claim("and idle again once the holder is gone", "8 of 8 idle" in output, output)


def _gpus(result: trainops.Result) -> list[dict[str, Any]]:
    step = result.hosts["ct200"].step("gpus")
    if step is None:
        raise ShowError(f"no GPU step: {result.message}")
    found: list[dict[str, Any]] = step.values["gpus"]
    return found


def _confirm(show: Show, lab: Lab, process: dict[str, Any]) -> None:
    """Ask /proc on both sides whether the holder is who the step says."""
    show.claim("the holder's vmid is 201", process["vmid"] == 201, process)
    inside = lab.container(201).run(["cat", f"/proc/{process['pid']}/cmdline"]).stdout
    show.claim(f"/proc/{process['pid']} in 201 is the process that holds it", b"/hold" in inside, inside)
    group = lab.node("pve1").run(["cat", f"/proc/{process['node_pid']}/cgroup"]).stdout
    show.claim(f"/proc/{process['node_pid']} on pve1 is in container 201", b"/lxc/201" in group, group)


def from_python(show: Show, lab: Lab) -> None:
    """The same from Python, with typed results."""
    show.act("The same from Python")
    script = show.folder / "dflash_model.py"
    script.write_text(script.read_text().replace("hidden: int = 32", "hidden: int = 40"))
    result = _deploy(show, "trainops.deploy()")
    releases = [_values(result, host, "release") for host in HOSTS]
    show.claim("ok, changed on every host", result.ok and all(host.changed for host in result.hosts.values()), result)
    show.claim("one release id everywhere", len({values["release_id"] for values in releases}) == 1, releases)
    _same_bytes(show, lab, "those of the folder", _local(show))
    result = _deploy(show, "trainops.deploy()")
    show.claim("ok, changed on no host", result.ok and not any(host.changed for host in result.hosts.values()), result)
    good = script.read_text()
    script.write_text(good + "def broken(:\n")
    result = _deploy(show, "trainops.deploy()")
    show.claim(f"{result.reason}: {result.message[:90]}", result.reason is trainops.Reason.FAILED, result)
    problems = {str(_values(result, host, "check")["problems"][0]["line"]) for host in HOSTS}
    show.claim("with the line as a number", problems == {str(len(good.splitlines()) + 1)}, problems)
    script.write_text(good)
    result = show.python("trainops.rollback()", lambda: trainops.rollback(cwd=show.folder))
    show.claim("ok, rolled back", result.ok and all(host.changed for host in result.hosts.values()), result)
    _same_bytes(show, lab, "those before", {script.name: good.replace("= 40", "= 32").encode()})


def _deploy(show: Show, code: str) -> trainops.Result:
    result: trainops.Result = show.python(code, lambda: trainops.deploy(cwd=show.folder))
    show.note(f"Result(ok={result.ok}, reason={result.reason}, hosts={list(result.hosts)}, {result.seconds:.1f} s)")
    return result


def _values(result: trainops.Result, host: str, step: str) -> dict[str, Any]:
    found = result.hosts[host].step(step)
    if found is None:
        raise ShowError(f"{host} has no {step}: {result.message}\n{result.output}")
    return found.values


if __name__ == "__main__":
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    main()
