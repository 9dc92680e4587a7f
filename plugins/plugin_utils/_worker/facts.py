# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the facts of a source say about when an import runs, and for which interpreter they hold."""

from __future__ import annotations

import sys

ALWAYS = "always"  # runs whenever the module is imported or started
SOMETIMES = "sometimes"  # in a function, or under a condition that only the run knows
TYPING = "typing"  # under TYPE_CHECKING
NEVER = "never"  # under a condition that is false for this interpreter, such as a test of its version

# Changes whenever the facts change their meaning or shape, so that facts kept by an older release are read anew.
FACTS_FORMAT = 1


def fingerprint() -> str:
    """Names the interpreter as far as it decides what compiles; facts are kept under it."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    stage = "" if sys.version_info[3] == "final" else f"{sys.version_info[3]}{sys.version_info[4]}"
    return f"{FACTS_FORMAT}:{sys.implementation.name}:{version}{stage}:{sys.implementation.cache_tag}:{sys.platform}"
