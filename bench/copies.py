"""A large file through copy and fetch, beside the same bytes through a bare ssh to the node."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.measure import Figure, Sample, run
from lab.api import Lab

MEGABYTES = 300
SSH = f"{MEGABYTES} MB: ssh node 'cat > /dev/null'"
COPY_BYTE, COPY = "copy of one byte", f"copy of {MEGABYTES} MB, in"
FETCH_BYTE, FETCH = "fetch of one byte", f"fetch of {MEGABYTES} MB, out"


def measure(
    folder: Path, lab: Lab, rounds: int, environment: Mapping[str, str], say: Callable[[str], None]
) -> list[Figure]:
    """Time and memory of each way; every byte is compared by the modules themselves (sha1)."""
    big, byte = folder / "big", folder / "byte"
    byte.write_bytes(b"x")
    with open(big, "wb") as stream:
        for _ in range(MEGABYTES):
            stream.write(os.urandom(1_000_000))
    samples: dict[str, list[Sample]] = {name: [] for name in (SSH, COPY_BYTE, COPY, FETCH_BYTE, FETCH)}
    for number in range(rounds):
        say(f"large files, round {number + 1} of {rounds}")
        lab.container(200).run(["rm", "-f", "/srv/big", "/srv/byte"])
        ssh = [*lab.ssh_args("pve1"), "cat > /dev/null"]
        samples[SSH].append(run(ssh, folder, environment, stdin=big))
        for name, source in ((COPY_BYTE, byte), (COPY, big)):
            copy = ["ansible", "ct200", "-m", "ansible.builtin.copy", "-a", f"src={source} dest=/srv/{source.name}"]
            samples[name].append(run(copy, folder, environment))
        for name, source in ((FETCH_BYTE, byte), (FETCH, big)):
            there = folder / f"fetched-{source.name}"
            there.unlink(missing_ok=True)
            options = f"src=/srv/{source.name} dest={there} flat=true"
            fetch = ["ansible", "ct200", "-m", "ansible.builtin.fetch", "-a", options]
            samples[name].append(run(fetch, folder, environment))
    return [Figure(name, tuple(taken)) for name, taken in samples.items()]
