# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python -m tests.faults``: interrupt deploys on the lab at random moments, and print what came of it as a table."""

from __future__ import annotations

import argparse
import faulthandler
import itertools
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.api import Lab, bring_up
from tests.faults.kinds import KINDS
from tests.faults.place import Place
from tests.faults.plan import trials
from tests.faults.table import Outcome, problems, table
from tests.faults.trials import Told, run_all

VMIDS = (200, 201, 210)


def interrupted(lab: Lab, seed: int, count: int, told: Told, kinds: Sequence[str] = ()) -> list[Outcome]:
    """``count`` interrupted deploys, side by side in the lab's containers; of some kinds only when they are named."""
    weights = [(kind.name, kind.weight) for kind in KINDS if not kinds or kind.name in kinds]
    shares = [count // len(VMIDS) + (at < count % len(VMIDS)) for at in range(len(VMIDS))]

    def one(vmid: int, share: int, folder: Path) -> list[Outcome]:
        with Place(lab, vmid, folder / str(vmid)) as place:
            return run_all(place, seed, trials(seed, vmid, share, weights), told)

    # A short path: those of sockets must have fewer than 108 bytes.
    with tempfile.TemporaryDirectory(prefix="tf-") as folder, ThreadPoolExecutor(len(VMIDS)) as pool:
        return list(itertools.chain(*pool.map(one, VMIDS, shares, [Path(folder)] * len(VMIDS))))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--kind", action="append", default=[], choices=[kind.name for kind in KINDS])
    options = parser.parse_args()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    begun, done = time.monotonic(), itertools.count(1)

    def tell(outcome: Outcome) -> None:
        text = f"{outcome.vmid}  {outcome.kind}  {outcome.when}  {'new' if outcome.new else 'old'} live"
        print(f"{next(done)}/{options.count}  {text}  {outcome.seconds:.1f} s", file=sys.stderr, flush=True)
        for line in problems([outcome]):
            print(f"    {line}", file=sys.stderr, flush=True)

    outcomes = interrupted(bring_up(), options.seed, options.count, tell, options.kind)
    wrong = problems(outcomes)
    print(table(outcomes, [kind.name for kind in KINDS], VMIDS))
    passes = sum(one.passes for one in outcomes)
    print(f"\nseed {options.seed}: {len(outcomes)} interrupted deploys, {passes} passes of the readers meanwhile, "
          f"{len(wrong)} problems, {time.monotonic() - begun:.0f} s")  # fmt: skip
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
