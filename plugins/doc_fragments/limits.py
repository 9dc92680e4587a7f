# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of every step that reads a project: how large it may be."""

from __future__ import annotations


class ModuleDocFragment:
    """What is taken for a mistake, such as a folder of checkpoints among the scripts."""

    DOCUMENTATION = r"""
options:
  max_size:
    description:
      - How large the project may be, such as V(500MB), V(2GB) or V(1.5GiB). V(0) is no limit.
      - A larger one is refused, naming what is largest in it, before anything of it is read or sent.
    type: str
    default: 500MB
  max_files:
    description: How many files it may have. V(0) is no limit.
    type: int
    default: 5000
"""
