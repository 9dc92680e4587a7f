# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The first ten minutes of a user who has `ssh root@node` and two scripts: python -m lab.first_deploy

Plays them on the lab's pve1 and writes what was typed and printed to docs/first-deploy.md. Container 200 is made as
new before and after.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import stranger
from .api import Lab, bring_up
from .errors import LabError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "first-deploy.md"
NODE = "127.0.0.11"  # the default lab's pve1; another lab's address is shown as this one
VMID = 200

_MODEL = """\
class Drafter:
    layers = 4

    def __init__(self, width: int) -> None:
        self.width = width
"""
_TRAIN = """\
from model import Drafter

drafter = Drafter(width=512)
print(f"training {drafter.layers} layers of width {drafter.width}")
"""
_BY_HAND = "print('some version of train.py, copied here by hand')\n"
_FOLDER = "drafter"

_HEAD = f"""\
# The first ten minutes

You have a Proxmox VE node that you reach by `ssh root@{NODE}`, a container on it, and a folder with two training
scripts. Below is everything you type until they are deployed, and everything that is printed. It was recorded on the
repository's lab, where {NODE} is the node pve1; `make transcript` plays and records it again, and a test compares.
"""


class Surprise(Exception):
    """A command ended otherwise than it should have."""


@dataclass
class Transcript:
    """What is typed in `folder` and printed, as Markdown."""

    lab: Lab
    folder: Path
    parts: list[str] = field(default_factory=lambda: [_HEAD])

    def say(self, text: str) -> None:
        """Paragraphs and headings."""
        paragraphs = (textwrap.fill(part, 120, break_on_hyphens=False) for part in text.split("\n\n"))
        self.parts.append("\n\n".join(paragraphs) + "\n")

    def type(self, line: str, status: int = 0) -> str:
        """Run a command line as that user does, and record it. Surprise when it ends with another status."""
        address = self.lab.address("pve1")
        done = stranger.run(self.lab, ["bash", "-c", line.replace(NODE, address)], self.folder)
        shown = done.stdout.replace(address, NODE).replace(str(self.folder), f"/home/you/{_FOLDER}")
        shown = shown.replace(sys.executable, "/home/you/venv/bin/python")
        shown = re.sub(r" +$|^Welcome to .*\n", "", shown, flags=re.MULTILINE)  # the greeting of the lab's nodes
        if done.returncode != status:
            raise Surprise(f"$ {line}\n{shown}\nended with {done.returncode}, not {status}")
        self.parts.append("".join(f"    {text}".rstrip() + "\n" for text in [f"$ {line}", *shown.splitlines()]))
        return shown

    @property
    def text(self) -> str:
        """The whole page."""
        return "\n".join(self.parts)


def play(lab: Lab, folder: Path) -> str:
    """The page, played in an empty `folder`; container 200 is left as new. Surprise when something goes otherwise."""
    container = lab.container(VMID)
    container.reset()
    container.run(["sh", "-c", "cat > /root/train.py"], stdin=_BY_HAND.encode()).check_returncode()
    (folder / "model.py").write_text(_MODEL)
    (folder / "train.py").write_text(_TRAIN)
    transcript = Transcript(lab, folder)
    try:
        _begin(transcript)
        _deploy(transcript)
        _go_on(transcript)
    finally:
        container.reset()
    return transcript.text


def _begin(user: Transcript) -> None:
    user.say("## What you have")
    user.type("ls")
    user.type(f"ssh -q root@{NODE} pct list")
    user.say("## Minute one: who holds the GPUs?\n\nNothing is installed for it, on the node or in a container.")
    user.type(f"trainops gpus root@{NODE}")
    user.say("## Do the scripts hold together?\n\nThat needs no container yet.")
    user.type("trainops check .")
    user.say("## What is on the node?")
    user.type(f"trainops init root@{NODE}")
    user.say(
        "With an id it looks into the container, still changing nothing there, and writes three small files here. Note "
        "that it found a `train.py` that somebody had copied there by hand."
    )
    user.type(f"trainops init root@{NODE}/{VMID}")
    user.type("cat inventory.yml")


def _deploy(user: Transcript) -> None:
    user.say("## Deploy\n\nFirst without doing it, then really. `ansible-playbook deploy_training.yml` does the same.")
    user.type("trainops deploy --check")
    user.type("trainops deploy")
    user.say("The paths are where they would be if you had copied the files; behind them is one release.")
    user.type(f"ssh -q root@{NODE} 'lxc-attach -n {VMID} -- /root/venv/bin/python /root/train.py'")


def _go_on(user: Transcript) -> None:
    user.say("## Edit, deploy, go back")
    user.type("sed -i 's/layers = 4/layers = 6/' model.py")
    user.type("trainops deploy --diff")
    user.type("trainops rollback")
    user.say("## A mistake\n\nIt is refused before anything moves.")
    user.type("sed -i 's/class Drafter/class DraftModel/' model.py")
    user.type("trainops deploy", status=1)
    user.say("## Away with it\n\nThe files of the live release stay, as plain files; nothing of trainops does.")
    user.type("trainops eject")
    user.type(f"ssh -q root@{NODE} 'lxc-attach -n {VMID} -- ls -lA --time-style=+ /root'")
    user.say(
        "Without the three files everything fits on one line: `trainops deploy . "
        f"root@{NODE}/{VMID}:/root --python /root/venv/bin/python`. For more containers add hosts to `inventory.yml`."
    )


@contextlib.contextmanager
def user_folder() -> Iterator[Path]:
    """An empty folder whose name the project gets."""
    with tempfile.TemporaryDirectory(prefix="trainops-first-") as temporary:
        folder = Path(temporary) / _FOLDER
        folder.mkdir()
        yield folder


def main() -> None:
    """Record the page."""
    started = time.monotonic()
    try:
        with user_folder() as folder:
            text = play(bring_up(), folder)
    except (LabError, Surprise) as error:
        sys.exit(f"first-deploy: {error}")
    PAGE.write_text(text)
    print(text)
    print(f"written to {PAGE.relative_to(PAGE.parent.parent)}; all of it took {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
