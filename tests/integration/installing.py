"""A place to install into that knows nothing of this checkout, and commands run there as a stranger would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BIN = Path(sys.executable).parent
PYTHON = Path(sys.base_prefix) / "bin" / ("python%d.%d" % sys.version_info[:2])
# How this machine reaches a package registry; none of these could lead anything of this checkout in.
_NETWORK = (
    *(
        f"{tool}_{what}"
        for tool in ("PIP", "UV")
        for what in ("INDEX", "EXTRA_INDEX", "FIND_LINKS", "CERT", "CACHE_DIR")
    ),
    *("PIP_CONFIG_FILE", "PIP_TRUSTED_HOST", "PIP_PROXY", "PIP_DEFAULT_TIMEOUT"),
    *("UV_CONFIG_FILE", "UV_DEFAULT_INDEX", "UV_INSECURE_HOST", "UV_HTTP_TIMEOUT", "UV_NATIVE_TLS", "UV_SYSTEM_CERTS"),
    *("SSL_CERT_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
_INVENTORY = """\
all:
  hosts:
    localhost:
      ansible_connection: local
      ansible_python_interpreter: "{{ ansible_playbook_python }}"
"""
_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin")


@dataclass(frozen=True)
class Place:
    """A home, a temporary folder and a project of its own; ``bin`` is the one folder on PATH beside the system's."""

    folder: Path
    bin: Path

    @classmethod
    def made(cls, folder: Path, tools: str = "home/.local/bin") -> Place:
        """A new one in ``folder``, with ``tools`` (from there) on PATH and a project of one script."""
        for name in ("home", "tmp", "project/scripts"):
            (folder / name).mkdir(parents=True)
        (folder / "project/scripts/train.py").write_text("import json\n\nprint(json.dumps({}))\n")
        for name in ("check.yml", "deploy_training.yml"):
            (folder / "project" / name).write_text(check_play())
        (folder / "project/ansible.cfg").write_text("[defaults]\ninventory = inventory.yml\n")
        (folder / "project/inventory.yml").write_text(_INVENTORY)
        return cls(folder, folder / tools)

    @property
    def project(self) -> Path:
        """The folder in which commands run."""
        return self.folder / "project"

    def run(self, *argv: str | Path, path: Sequence[str | Path] = (), **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command there, with the variables ``more`` and the folders ``path`` before all others on PATH."""
        return subprocess.run(
            list(map(str, argv)),
            cwd=self.project,
            env={**self._environment(path), **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def said(self, *argv: str | Path, path: Sequence[str | Path] = (), **more: str) -> str:
        """The output of a command that must succeed."""
        done = self.run(*argv, path=path, **more)
        assert done.returncode == 0, f"{argv}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _environment(self, path: Sequence[str | Path]) -> dict[str, str]:
        return {
            **_configured(Path.home()),
            **{name: value for name, value in os.environ.items() if name.startswith(_NETWORK)},
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "LC_ALL": "C.UTF-8",
            "PATH": os.pathsep.join(map(str, (*path, self.bin, *_SYSTEM))),
        }


def _configured(home: Path) -> dict[str, str]:
    """The user's own settings and caches of pip and uv, which another HOME would hide."""
    files = {
        "PIP_CONFIG_FILE": (home / ".config/pip/pip.conf", home / ".pip/pip.conf"),
        "UV_CONFIG_FILE": (home / ".config/uv/uv.toml",),
    }
    found = {name: next((str(path) for path in paths if path.exists()), "") for name, paths in files.items()}
    caches = {"PIP_CACHE_DIR": str(home / ".cache/pip"), "UV_CACHE_DIR": str(home / ".cache/uv")}
    return {**caches, **{name: path for name, path in found.items() if path}}


def check_play(**options: str) -> str:
    """A playbook that checks the project without any container."""
    lines = ["- hosts: localhost", "  connection: local", "  gather_facts: false", "  tasks:", "    - name: Check"]
    lines += ["      trainops.proxmox.syntax_check:", "        project: scripts"]
    return "\n".join(lines + [f"        {name}: {value}" for name, value in options.items()]) + "\n"
