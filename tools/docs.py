#!/usr/bin/env python3
"""Make docs/reference from the plugins' and roles' own documentation with antsibull-docs, and its index: `make docs`.

`tools/docs.py --check` writes nothing and names what is stale.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFERENCE = ROOT / "docs" / "reference"
COLLECTION = "trainops.proxmox"
INDEX = "README.md"
HEADINGS = {
    "module": "Modules",
    "role": "Roles",
    "connection": "Connection",
    "inventory": "Inventory",
    "callback": "Callback",
}
# Their options come from ansible-core for a part, so the pages differ from one release of it to the next.
OF_CORE = ("_callback.rst", "_connection.rst")

# No Galaxy server has the collection: the pages say how it is installed and lead to the README.
CONFIG = """\
collection_url = {
    * = "../../README.md"
}
collection_install = {
    * = "ansible-galaxy collection install {namespace}-{name}-*.tar.gz"
}
"""


class DocsError(Exception):
    """antsibull-docs could not make the pages; the text is what it said."""


def generate(folder: Path) -> dict[str, str]:
    """Return the pages by file name, made in the empty `folder`. Raises DocsError."""
    config = folder / "antsibull-docs.cfg"
    config.write_text(CONFIG)
    pages = folder / "pages"
    pages.mkdir(mode=0o700)
    argv = ["antsibull-docs", "--config-file", str(config), "collection", "--use-current", "--fail-on-error"]
    argv += ["--output-format", "simplified-rst", "--squash-hierarchy", "--no-breadcrumbs"]
    argv += ["--no-add-antsibull-docs-version", "--dest-dir", str(pages), COLLECTION]
    done = subprocess.run(
        argv,
        cwd=ROOT,
        env=environment(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise DocsError((done.stdout + done.stderr).strip())
    found = {path.name: tidy(path.read_text()) for path in pages.glob("*.rst")}
    found.pop("index.rst", None)  # it names a repository that has no public address; ours has the same lists
    return found


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """Return `base` with the tools of this interpreter first on PATH and the locale that Ansible wants."""
    path = os.pathsep.join((str(Path(sys.executable).parent), base.get("PATH", os.defpath)))
    return {**base, "PATH": path, "LC_ALL": "C.UTF-8"}


def tidy(page: str) -> str:
    """Return a page without blanks at line ends and without more than two empty lines in a row."""
    lines = "\n".join(line.rstrip() for line in page.splitlines())
    return re.sub(r"\n{4,}", "\n\n\n", lines).rstrip("\n") + "\n"


def index(pages: Mapping[str, str], core: str) -> str:
    """Return the index of the pages, made with that ansible-core ("2.21"); each has its short description."""
    lines = [
        "# Reference",
        "",
        "All options and results of what the collection brings, the same as `ansible-doc` shows.",
    ]
    lines += [f"Made by `make docs` with ansible-core {core}; do not edit."]
    for kind, heading in HEADINGS.items():
        names = sorted(name for name in pages if name.endswith(f"_{kind}.rst"))
        if names:
            lines += ["", f"## {heading}", "", f"| {kind} | |", "| --- | --- |"]
            lines += [f"| [{name.removesuffix(f'_{kind}.rst')}]({name}) | {summary(pages[name])} |" for name in names]
    return "\n".join(lines) + "\n"


def summary(page: str) -> str:
    """Return the short description in a page's title, `trainops.proxmox.gpu_idle module -- Wait until …`."""
    found = re.search(rf"^{re.escape(COLLECTION)}\.\w+ \w+ -- (.+)$", page, re.MULTILINE)
    return found[1].replace("\\", "") if found else ""


def recorded_core(text: str) -> str:
    """Return the ansible-core that an index says it was made with, empty when it says none."""
    found = re.search(r"with ansible-core (\d+\.\d+)", text)
    return found[1] if found else ""


def this_core() -> str:
    """Return the ansible-core of this environment as in "2.21"."""
    from ansible.release import __version__

    return ".".join(__version__.split(".")[:2])


def stale(made: Mapping[str, str], there: Mapping[str, str], core: str) -> list[str]:
    """Return what differs, a line each. Pages that depend on ansible-core count where both were made with the same."""
    recorded = recorded_core(there.get(INDEX, ""))
    found = []
    for name in sorted({*made, *there}):
        if name not in made:
            found.append(f"{name} is of nothing that exists")
        elif name not in there:
            found.append(f"{name} is missing")
        elif name == INDEX:
            if made[name].replace(f"ansible-core {core}", f"ansible-core {recorded}") != there[name]:
                found.append(f"{name} is stale")
        elif made[name] != there[name] and (core == recorded or not name.endswith(OF_CORE)):
            found.append(f"{name} is stale")
    return found


def existing(names: Iterable[Path]) -> dict[str, str]:
    """Return the text of the files by name."""
    return {path.name: path.read_text() for path in names}


def write(made: Mapping[str, str]) -> None:
    """Make the folder hold exactly these files."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for path in REFERENCE.iterdir():
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (REFERENCE / name).write_text(text)


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with --check compare them; return the exit status."""
    if list(arguments) not in ([], ["--check"]):
        print("docs: usage: tools/docs.py [--check]", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="trainops-docs-") as scratch:
        try:
            made = generate(Path(scratch))
        except DocsError as error:
            print(f"docs: antsibull-docs could not make the pages:\n{error}", file=sys.stderr)
            return 1
    core = this_core()
    made[INDEX] = index(made, core)
    if not arguments:
        write(made)
        print(f"docs: {len(made)} files in {REFERENCE.relative_to(ROOT)}")
        return 0
    wrong = stale(made, existing(REFERENCE.glob("*")), core)
    for line in wrong:
        print(f"docs: docs/reference/{line}: run `make docs` and commit what it writes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
