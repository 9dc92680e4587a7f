# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What runs is the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_idle
short_description: Wait until GPUs are idle
version_added: 0.1.0
author:
  - trainops contributors (@trainops)
description:
  - Looks at the GPUs of a container as M(trainops.proxmox.gpu_info) does, again and again, and returns as soon as
    the selected ones are idle. Each look is one remote command.
  - A GPU is idle when no process holds it, on the node and in any container, and no more than O(memory_mib) of its
    memory is in use. Utilisation decides only where the node could not be asked, where more than 10 % mean that
    somebody computes.
  - One look is enough for a GPU that is idle in the first one by the node's view. Two in a row are needed after it
    was seen busy or unknown, since memory and processes flicker while a job ends or restarts, and where the node
    could not be asked. The second follows after a second.
  - Without success it fails with a table of the GPUs and who holds them, or only reports, see O(require).
options:
  select:
    description:
      - Which GPUs. A number of GPUs, a list of indexes and UUIDs, or a JMESPath expression over the list
        RV(trainops.proxmox.gpu_info#module:gpus) that returns GPUs, their UUIDs or indexes. By default all.
      - An expression is evaluated on the controller, over the first look in which it matches enough GPUs, with the
        Python package C(jmespath). One that would match too few even if all GPUs were idle is an error.
      - Text such as C(0,2) or C(0-3) is a list, text such as C(2) a number of GPUs.
      - V(0) or an empty list is none, as for a run without GPUs. Nothing is looked at then, and O(count) plays no part.
    type: raw
  count:
    description: So many of the selected GPUs are enough. Those with the lowest indexes among the idle ones are chosen.
    type: int
  timeout:
    description:
      - Seconds to wait. V(0) is a single look, in which one idle sample is enough.
      - Waiting ends at once when C(nvidia-smi) fails in a way that time does not mend.
    type: float
    default: 300
  interval:
    description: Seconds between two looks. Frequent looks disturb a running job.
    type: float
    default: 5
  require:
    description: Whether GPUs that are not idle fail the task. Otherwise the result says so in RV(idle).
    type: bool
    default: true
extends_documentation_fragment:
  - trainops.proxmox.gpus
attributes:
  check_mode:
    description: It changes nothing. In check mode it looks once, without waiting.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
notes:
  - While it waits it prints a line every ten seconds.
seealso:
  - module: trainops.proxmox.gpu_info
"""

EXAMPLES = r"""
- name: Wait until all GPUs are idle
  trainops.proxmox.gpu_idle:
    timeout: 600

- name: Choose two idle GPUs with at least 80 GB
  trainops.proxmox.gpu_idle:
    select: "[?memory_total_mib >= `80000`]"
    count: 2
  register: chosen

- name: Look once at two GPUs and go on in any case
  trainops.proxmox.gpu_idle:
    select: [0, 1]
    timeout: 0
    require: false
"""

RETURN = r"""
summary:
  description: One line.
  returned: always
  type: str
  sample: 8 of 8 idle, 0 MiB each, no holder
msg:
  description: The same as RV(summary). A failure adds RV(table) and the fix.
  returned: always
  type: str
idle:
  description: Whether the wanted GPUs are idle.
  returned: always
  type: bool
gpus:
  description: >-
    The chosen GPUs, or all selected ones when they are not idle, as in RV(trainops.proxmox.gpu_info#module:gpus).
  returned: always
  type: list
  elements: dict
uuids:
  description: UUIDs of the chosen GPUs. Empty when too few are idle.
  returned: always
  type: list
  elements: str
indexes:
  description: Indexes of the chosen GPUs in the container. Empty when too few are idle.
  returned: always
  type: list
  elements: int
held_by_runs:
  description: >-
    The runs that M(trainops.proxmox.training_run) started in this container and that hold the selected GPUs which are
    not idle. Empty unless nobody else holds any of these.
  returned: always
  type: list
  elements: str
  sample: [r1]
waited_seconds:
  description: How long it waited.
  returned: always
  type: float
looks:
  description: How often it looked.
  returned: always
  type: int
table:
  description: The selected GPUs with their holders as text, as wide as the terminal, or 80 columns.
  returned: always
  type: str
view:
  description: V(node) when no holder can have been missed, V(inside) when the verdicts are as seen from inside.
  returned: always
  type: str
view_reason:
  description: Why the view is not the node's. Empty when it is.
  returned: always
  type: str
driver_version:
  description: Version of the NVIDIA driver.
  returned: always
  type: str
seconds:
  description: How long C(nvidia-smi) took in the last look.
  returned: always
  type: float
code:
  description: V(gpus-busy) or V(gpus-unknown).
  returned: failure
  type: str
"""
