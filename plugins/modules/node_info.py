# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What runs is the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: node_info
short_description: Look at a Proxmox VE node, its containers and GPUs, over SSH alone
version_added: 0.1.0
author:
  - trainops contributors (@trainops)
description:
  - Says what a login on a node finds there. The containers with their state, which GPUs each of them is given by its
    configuration, the node's GPUs and who holds them, and by which program this login may enter containers.
  - It runs on the node itself, over any connection that leads there, such as C(ssh). It is one remote command that
    needs C(sh) alone, installs nothing and changes nothing. The Proxmox VE API is not asked, and neither is C(pct),
    each call of which takes more than a second.
  - The login is root's, or that of a user who may run C(sh) by C(sudo) without a password. Any other login gets what it
    may see, and warnings say what is missing.
extends_documentation_fragment:
  - trainops.proxmox.gpus
options:
  node_view:
    description: Means nothing here, the node is what is looked at.
    type: bool
    default: true
  python:
    description: Means nothing here, no Python is needed.
    type: str
attributes:
  check_mode:
    description: It changes nothing, so it does the same in check mode.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
notes:
  - A configuration names the N of C(/dev/nvidiaN) on the node. Understood are C(dev[n]) entries, C(lxc.mount.entry) and
    mount points of a device file or of C(/dev) as a whole, and the hook of the NVIDIA container tools with
    C(NVIDIA_VISIBLE_DEVICES). What a hookscript passes cannot be known, see RV(containers[].gpus_note).
  - What counts is the configuration in force. Snapshots and pending changes are left out.
seealso:
  - module: trainops.proxmox.gpu_info
  - module: trainops.proxmox.training_survey
"""

EXAMPLES = r"""
- name: Look at a node
  trainops.proxmox.node_info:
  connection: ssh
  register: found

- name: The running containers that have GPUs
  ansible.builtin.debug:
    msg: "{{ found.containers | selectattr('state', 'eq', 'running') | selectattr('gpus') | map(attribute='vmid') }}"
"""

RETURN = r"""
summary:
  description: One line, also of a failure.
  returned: always
  type: str
  sample: "pve1: 3 containers, 2 running; 8 GPUs, 7 idle; root may enter containers by lxc-attach"
msg:
  description: The same as RV(summary), or what went wrong and the fix.
  returned: always
  type: str
table:
  description: The containers as text, at most 80 columns wide.
  returned: success
  type: str
node:
  description: The node's name in its cluster.
  returned: success
  type: str
  sample: pve1
login:
  description: Who logged in.
  returned: success
  type: str
  sample: root
may_enter:
  description: The programs by which this login may enter containers, the quicker one first. Empty when it may not.
  returned: success
  type: list
  elements: str
  sample: [lxc-attach, pct]
may_enter_only:
  description:
    - Ids of the containers that this login may enter where it has the helper C(trainops-enter) alone.
    - Null where it may enter any or none, see RV(may_enter).
  returned: success
  type: list
  elements: int
  sample: [200]
pve_version:
  description: Version of the package C(pve-manager), null when it is not known.
  returned: success
  type: str
  sample: 9.2.11
containers:
  description: The containers of this node by vmid.
  returned: success
  type: list
  elements: dict
  contains:
    vmid: {description: Its id., type: int, sample: 200}
    name: {description: "Its host name, null when the login may not read its configuration.", type: str}
    state:
      description: >-
        V(running), V(stopped), V(frozen), V(starting) or V(stopping). A login that may not ask LXC sees a frozen
        container as running.
      type: str
    unprivileged: {description: "Whether its root is no root on the node, null when it is not known.", type: bool}
    ostype: {description: "Its kind of system, null when it is not known.", type: str, sample: debian}
    template: {description: Whether it is a template., type: bool}
    lock: {description: "Why it is locked, such as V(backup), null when it is not.", type: str}
    gpus:
      description: The N of each C(/dev/nvidiaN) of the node that it is given, null when it is not known.
      type: list
      elements: int
      sample: [0, 1]
    gpus_note: {description: "What its configuration leaves open about GPUs, null when nothing.", type: str}
gpus:
  description: The node's GPUs, as in RV(trainops.proxmox.gpu_info#module:gpus). Empty when none could be read.
  returned: success
  type: list
  elements: dict
  contains:
    index: {description: Its index on the node., type: int, sample: 3}
    uuid: {description: "Its UUID, the same everywhere.", type: str}
    name: {description: The card., type: str, sample: NVIDIA H200}
    minor: {description: "The N of its device file C(/dev/nvidiaN).", type: int}
    memory_total_mib: {description: Memory of the card in MiB., type: int, sample: 143771}
    verdict: {description: "V(idle), V(busy) or V(unknown).", type: str}
    processes: {description: Who holds it., type: list, elements: dict}
gpu_summary:
  description: One line about the GPUs and their holders, or why none could be read.
  returned: success
  type: str
  sample: 8 of 8 idle, 0 MiB each, no holder
view:
  description: V(node), or V(partial) when the login may not look at all processes.
  returned: success
  type: str
view_reason:
  description: Why the view is partial. Empty when it is not.
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
code:
  description: A short word for the failure. V(no-node) for a machine that is no Proxmox VE node.
  returned: failure
  type: str
"""
