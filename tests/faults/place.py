# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container in which deploys are interrupted: its roots and reader, a link to its node, the command, what is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import yaml

from lab import faults, processes
from lab.api import Lab
from lab.holding import DIE_WITH_PARENT
from lab.link import Link, link
from tests.faults import hook, project, reader

BIN = Path(sys.executable).parent
FOLDER = "/srv/faults"
ROOTS = {"disk": f"{FOLDER}/disk", "small": f"{FOLDER}/small"}
PYTHON = f"{FOLDER}/venv/bin/python"
MARK = "TRAINOPS_FAULTS"
KEEP = 3
_SMALL = "size=4m,nr_inodes=400"
_OURS = {"activations", "current", "lock", "releases", "cache", "runs"}


def until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait for a condition. TimeoutError that names it when it does not come true."""
    end, pause = time.monotonic() + seconds, 0.005
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


class Place:
    """One container with a folder on this machine. Use it as a context; it is made ready on entering."""

    def __init__(self, lab: Lab, vmid: int, folder: Path) -> None:
        self.lab = lab
        self.container = lab.container(vmid)
        self.folder = folder
        self.link: Link
        self.stamp = 0
        self._stack = contextlib.ExitStack()
        self._reader: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Place:
        for name in ("tmp", "home"):
            (self.folder / name).mkdir(parents=True)
        self.link = self._stack.enter_context(link(self.lab.instance, self.container.spec.node))
        self._stack.callback(self._leave)
        self._write_settings()
        self._inside("rm", "-rf", FOLDER)
        self._inside("mkdir", "-p", ROOTS["disk"])
        self._inside("python3", "-m", "venv", "--without-pip", "--system-site-packages", f"{FOLDER}/venv")
        version = "import sys; print('python%d.%d' % sys.version_info[:2])"
        site = f"{FOLDER}/venv/lib/{self._inside('python3', '-c', version).strip()}/site-packages"
        self._inside("tee", f"{site}/hook_of_faults.py", stdin=Path(hook.__file__).read_bytes())
        self._inside("tee", f"{site}/faults.pth", stdin=b"import hook_of_faults\n")
        self.started()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def _leave(self) -> None:
        self.close_connection()
        if self._reader:
            self._reader.kill()
            self._reader.wait()
        faults.unmount(self.container, ROOTS["small"])
        self.container.run(["rm", "-rf", FOLDER])

    def _inside(self, *argv: str, stdin: bytes = b"") -> str:
        done = self.container.run(argv, stdin=stdin)
        assert done.returncode == 0, (argv, done.stderr)
        return done.stdout.decode()

    def _write_settings(self) -> None:
        inventory = yaml.safe_load(self.lab.inventory.read_text())
        variables = inventory["training"]["vars"]
        host = {"ansible_host": self.link.address, "proxmox_vmid": self.container.vmid}
        inventory["training"]["hosts"] = {f"ct{self.container.vmid}": host}
        variables |= {
            "ansible_port": self.link.port,
            "training_project": str(self.folder / "project"),
            "training_name": "demo",
            "training_python": PYTHON,
            "training_keep_releases": KEEP,
        }
        (self.folder / "inventory.yml").write_text(yaml.safe_dump(inventory))
        (self.folder / "ansible.cfg").write_text(
            "[defaults]\ninventory = inventory.yml\nstdout_callback = trainops.proxmox.summary\n"
        )

    # --- the container ------------------------------------------------------------------------------------------------

    def started(self) -> None:
        """What a start of the container takes with it is there again: the small disk, the reader."""
        faults.mount(self.container, ROOTS["small"], _SMALL)
        if self._reader:
            self._reader.kill()
            self._reader.wait()
        self.seen(f"{FOLDER}/reads").unlink(missing_ok=True)  # the count of the reader before
        argv = [*DIE_WITH_PARENT, "/usr/bin/python3", "-I", "-", FOLDER, *ROOTS.values()]
        attached = [*DIE_WITH_PARENT, *self.container.attach(argv, *DIE_WITH_PARENT)]
        self._reader = subprocess.Popen(
            attached, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert self._reader.stdin is not None
        with self._reader.stdin as stream:
            stream.write(Path(reader.__file__).read_bytes())
        until(lambda: self.reads(), "the reader's first pass")

    def seen(self, path: str) -> Path:
        """A path in the running container as it is reached from this machine."""
        if pid := processes.init(self.container):
            return Path(f"/proc/{pid}/root{path}")
        raise FileNotFoundError(f"container {self.container.vmid} does not run")

    def reads(self) -> int:
        """How many passes the reader has made since it was started."""
        try:
            return int(self.seen(f"{FOLDER}/reads").read_text() or 0)
        except (OSError, ValueError):
            return 0

    def bad_reads(self) -> list[str]:
        """What passes of the reader found wrong since this was last asked."""
        try:
            path = self.seen(f"{FOLDER}/bad")
            found = path.read_text().splitlines()
            path.unlink()
        except OSError:
            return []
        return found

    def home(self, root: str) -> Path:
        """The folder of the project below a root."""
        return self.seen(f"{ROOTS[root]}/.trainops/demo")

    def target(self, root: str) -> str | None:
        """What ``current`` says; None when nothing is live."""
        try:
            return os.readlink(self.home(root) / "current")
        except FileNotFoundError:
            return None

    def live(self, root: str) -> int | None:
        """The stamp of what is live; None when nothing is. AssertionError when it is not all of that release."""
        target = self.target(root)
        if target is None:
            return None
        release = self.home(root) / target
        stamps = [int(path.stem) for path in (release / "data").iterdir()]
        assert len(stamps) == 1, stamps
        wrong = project.wrong(release, stamps[0])
        assert not wrong, wrong
        return stamps[0]

    def staged(self, root: str) -> list[str]:
        """The scratch folders of deploys."""
        try:
            return [path.name for path in (self.home(root) / "releases").iterdir() if path.name.startswith(".stage-")]
        except OSError:
            return []

    # --- the controller -----------------------------------------------------------------------------------------------

    def command(self, root: str, program: str = "ansible-playbook") -> list[str]:
        """The command line of a deploy."""
        variable = ["-e", f"training_root={ROOTS[root]}"]
        if program == "trainops":
            return [str(BIN / "trainops"), "deploy", *variable]
        return [str(BIN / "ansible-playbook"), "trainops.proxmox.deploy_training", *variable]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "TRAINOPS_"))}
        return {
            **kept,
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "cp"),
            "TMPDIR": str(self.folder / "tmp"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            MARK: str(self.folder),
        }

    def start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a deploy in a session of its own; what it prints goes to the file ``said``."""
        with (self.folder / "said").open("wb") as output:
            return subprocess.Popen(
                argv,
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start_in_terminal(self, argv: Sequence[str]) -> tuple[int, int]:
        """Start a deploy as a person does; its process and the end of the terminal at which the person sits."""
        environment = self._environment()
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(self.folder)
            os.execve(argv[0], [*argv], environment)
        return process, terminal

    def said(self) -> str:
        """What the last command printed."""
        return (self.folder / "said").read_text(errors="replace")

    def deploy(self, root: str, program: str = "ansible-playbook") -> int:
        """A deploy of the project to its end; its exit status."""
        return self.start(self.command(root, program)).wait(300)

    def next_stamp(self) -> int:
        """Change the project on this machine."""
        self.stamp += 1
        project.write(self.folder / "project", self.stamp)
        return self.stamp

    def started_here(self) -> list[int]:
        """What is left on this machine of commands that were started here, but for ssh's shared connections."""
        needle, found = f"{MARK}={self.folder}".encode(), []
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if needle in Path(entry.path, "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def ssh_clients(self) -> list[int]:
        """The ssh processes of commands that were started here."""
        return [pid for pid in self.started_here() if processes.command_line(pid)[:1] == [b"ssh"]]

    def masters(self) -> list[int]:
        """ssh's shared connections, which it keeps in the background for the next command."""
        sockets = f"ssh: {self.folder / 'cp'}/".encode()
        pids = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
        return [pid for pid in pids if b" ".join(processes.command_line(pid)).startswith(sockets)]

    def close_connection(self) -> None:
        """End the shared connections, so that the next command logs in anew."""
        processes.kill(self.masters(), signal.SIGTERM)
        until(lambda: not self.masters(), "the end of the shared connection")

    def kill_all(self) -> None:
        """End whatever of a command is left here."""
        until(lambda: not processes.kill(self.started_here()), "the end of the command")

    # --- afterwards ---------------------------------------------------------------------------------------------------

    def leftovers(self, root: str, seconds: float = 60) -> list[str]:
        """What of earlier deploys is still there once it has had some seconds to go."""
        with contextlib.suppress(TimeoutError):
            until(lambda: not self._running(), "the end of all processes", seconds)
        return [*self._running(), *self._files(root), *self._temporary()]

    def _running(self) -> list[str]:
        found = {
            "process of ours in the container": processes.workers(self.container),
            "shell on the node": processes.shells(self.container),
            "attach on the node": processes.attaches(self.container),
            "process on the controller": self.started_here(),
            "shared connection beside another": self.masters()[1:],
        }
        return [f"{what}: {pids}" for what, pids in found.items() if pids]

    def _files(self, root: str) -> Iterator[str]:
        home = self.home(root)
        yield from (f"scratch folder: {name}" for name in self.staged(root))
        yield from (f"in the project's folder: {name}" for name in sorted({p.name for p in home.iterdir()} - _OURS))
        trees = {path.name for path in (home / "releases").iterdir() if path.is_dir()}
        manifests = {path.stem for path in (home / "releases").glob("*.json")}
        yield from (f"release without its manifest or the reverse: {name}" for name in sorted(trees ^ manifests))
        if len(trees) > KEEP:
            yield f"more releases than are kept: {len(trees)}"
        for lock in (home / "lock", home.parent / ".lock"):
            with lock.open() as stream:
                try:
                    fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    yield f"held lock: {lock.name}"

    def _temporary(self) -> list[str]:
        """Files on the controller, but for what Ansible itself leaves when it is killed: an empty folder, a socket."""
        found = [*(self.folder / "tmp").rglob("*"), *(self.folder / "home" / "tmp").rglob("*")]
        left = [f"on the controller: {path.relative_to(self.folder)}" for path in found if not _is_ansibles(path)]
        for folder in (self.folder / "tmp", self.folder / "home" / "tmp"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        return left


def _is_ansibles(path: Path) -> bool:
    return (path.is_dir() and path.name.startswith(("ansible-local-", "pymp-"))) or path.is_socket()
