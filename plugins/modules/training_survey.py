# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What runs is the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: training_survey
short_description: Look at a container before the first deploy, and at the project
version_added: 0.1.0
author:
  - trainops contributors (@trainops)
description:
  - Finds the Python interpreters of a container and which of them has torch, the folder in which the project's files
    are already, the GPUs, the free space, and what of the project is too big to ship.
  - It proposes what an inventory needs, RV(python) as C(training_python) and RV(root) as C(training_root).
  - It changes nothing, on the node and in the container. Two remote commands at most. The first needs C(sh) alone, the
    second runs in the best interpreter that the first one found.
  - Interpreters are looked for in the usual places. Environments in and two levels below O(root) and root's home, in
    other homes, C(/opt), C(/srv), C(/data), C(/workspace) and C(/venv), those of conda, pyenv and uv, and C(/usr).
  - Only programs of root in folders of root are started, since whoever owns an environment decides what runs with it.
    The others are listed in RV(not_started).
extends_documentation_fragment:
  - trainops.proxmox.gpus
options:
  project:
    description:
      - The project on the controller, as in M(trainops.proxmox.training_release). Sizes alone are read, no content.
      - Without it the container alone is looked at.
    type: raw
  exclude:
    description: What does not belong to the project, as in M(trainops.proxmox.training_release).
    type: list
    elements: str
    default: []
  shared:
    description: Names that live outside of releases, as in M(trainops.proxmox.training_release).
    type: list
    elements: str
    default: []
  name:
    description: The project's name, as in M(trainops.proxmox.training_release).
    type: str
  root:
    description:
      - The folder in the container that is meant for the project.
      - By default the one that has most of the project's top-level names, and at least half of them. Looked at are
        root's home and other homes, C(/opt), C(/srv), C(/data), C(/mnt), C(/workspace), C(/app), and the folders in
        them. Root's home when none has.
    type: str
  python:
    description:
      - The interpreter that trains, when it is known. By default the best that is found.
    type: str
  big_mib:
    description:
      - Files and folders of the project that are larger than this many MiB are named in RV(big).
    type: int
    default: 100
attributes:
  check_mode:
    description: It changes nothing, so it does the same in check mode.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
notes:
  - A container without any Python, or with only too old ones, is a result too. RV(python) is null then, RV(msg) says
    what to do, and nothing else is looked at inside.
seealso:
  - module: trainops.proxmox.node_info
  - module: trainops.proxmox.training_release
"""

EXAMPLES = r"""
- name: Look at the container
  trainops.proxmox.training_survey:
    project: ./scripts
  register: survey

- name: What an inventory needs
  ansible.builtin.debug:
    msg: "training_python: {{ survey.python }}, training_root: {{ survey.root }} ({{ survey.root_reason }})"
"""

RETURN = r"""
summary:
  description: One line, also of a failure.
  returned: always
  type: str
  sample: "Python 3.11.2 with torch 2.8.0 at /root/venv/bin/python; root /root; 8 of 8 GPUs idle; 51 GB free"
msg:
  description: The summary and, line by line, what else there is to know, or what went wrong and the fix.
  returned: always
  type: str
details:
  description: RV(msg) without its first line.
  returned: success
  type: str
python:
  description: The interpreter to use as C(training_python), null when none is fit.
  returned: success
  type: str
  sample: /root/venv/bin/python
pythons:
  description:
    - Every interpreter that answered, best first. One with torch before one without, an environment before the
      system's. Those older than Python 3.9 come last.
  returned: success
  type: list
  elements: dict
  contains:
    path: {description: Where it is., type: str, sample: /root/venv/bin/python}
    version: {description: Its version., type: str, sample: 3.11.2}
    torch:
      description: "Version of torch there, V(unknown) when it does not tell, null without torch. It is not imported."
      type: str
    environment: {description: Whether it is a virtual or conda environment., type: bool}
not_started:
  description: Interpreters that were not started.
  returned: success
  type: list
  elements: dict
  contains:
    path: {description: Where it is., type: str, sample: /home/ann/venv/bin/python}
    why: {description: The reason., type: str, sample: it belongs to ann}
root:
  description: The folder to use as C(training_root), O(root) when that is given. Null when nothing could be looked at.
  returned: success
  type: str
  sample: /root
root_reason:
  description: Why it is proposed, or what is the matter with O(root).
  returned: success
  type: str
  sample: train.py and model.py are there
roots:
  description: The folders in which top-level names of the project are, most names first.
  returned: success
  type: list
  elements: dict
  contains:
    path: {description: The folder., type: str, sample: /root}
    names: {description: The names that are there., type: list, elements: str, sample: [train.py]}
    deployed: {description: Whether the project was deployed there before., type: bool}
init:
  description: What runs as the first process, V(systemd) or another name. Null when it is not known.
  returned: success
  type: str
disk_free_bytes:
  description: Free space at RV(root) in bytes, null when it is not known.
  returned: success
  type: int
gpus:
  description: The container's GPUs, as in RV(trainops.proxmox.gpu_info#module:gpus). Empty when none could be read.
  returned: success
  type: list
  elements: dict
gpu_summary:
  description: One line about the GPUs and their holders, or why none could be read.
  returned: success
  type: str
  sample: 8 of 8 idle, 0 MiB each, no holder
view:
  description: As in RV(trainops.proxmox.gpu_info#module:view). Null when no GPU was looked at.
  returned: success
  type: str
view_reason:
  description: Why the view is not the node's. Empty when it is.
  returned: success
  type: str
driver_version:
  description: Version of the NVIDIA driver, null when no GPU could be read.
  returned: success
  type: str
seconds:
  description: How long C(nvidia-smi) took.
  returned: success
  type: float
name:
  description: The project's name, null without O(project).
  returned: success
  type: str
files:
  description: How many files of the project would be shipped.
  returned: success
  type: int
total_bytes:
  description: Their size in bytes.
  returned: success
  type: int
big:
  description:
    - What of the project is larger than O(big_mib), largest first. A folder is named as a whole, unless it is big only
      because of up to three files or folders in it.
  returned: success
  type: list
  elements: dict
  contains:
    path: {description: Path in the project., type: str, sample: checkpoints}
    bytes: {description: Its size., type: int}
    files: {description: How many files that are., type: int}
    exclude: {description: The pattern for O(exclude) that means this path alone., type: str, sample: ./checkpoints}
largest:
  description: The largest files of the project, at most ten.
  returned: success
  type: list
  elements: dict
  contains:
    path: {description: Path in the project., type: str}
    bytes: {description: Its size., type: int}
left_out:
  description: How many files and folders of the project are never shipped, by reason.
  returned: success
  type: dict
  sample: {bytecode: 2, secrets: 1}
problems:
  description: Sentences on what keeps the project from being released as it is.
  returned: success
  type: list
  elements: str
code:
  description: A short word for the failure.
  returned: failure
  type: str
"""
