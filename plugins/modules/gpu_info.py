# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What runs is the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Read the GPUs of a container, or of a node, and who holds them
version_added: 0.1.0
author:
  - trainops contributors (@trainops)
description:
  - Lists the GPUs that a container has, with their memory, and every process that holds one of them.
  - A container sees neither the processes of another container nor a job there that has opened a GPU and owns no
    memory yet. So the node is asked as well, within the same remote command. It knows the process of the node
    behind each holder, the container that process belongs to, its PID in there, its command and its age. See
    O(node_view).
  - A process holds a GPU when C(nvidia-smi) lists it there, or when it has initialised CUDA on it, which is when it
    has the device file open and mapped. Programs that only watch GPUs open the device files too, but map none.
  - CUDA opens every GPU that a process may see. A process that owns memory on one GPU counts on the others only
    during its first two minutes, one that owns no memory yet counts on all that it has opened.
  - Over a connection to the node itself, such as C(ssh), every GPU of the node is listed, by one remote command that
    needs C(sh) there and no Python, and that installs nothing. The login is root's, or that of a user who may run C(sh)
    by C(sudo) without a password. Any other login gets what it may see, and RV(view_reason) says what is missing.
  - Each GPU gets a verdict, RV(gpus[].verdict), with reasons. What cannot be read with certainty is V(unknown),
    which is never treated as idle.
extends_documentation_fragment:
  - trainops.proxmox.gpus
attributes:
  check_mode:
    description: It changes nothing, so it does the same in check mode.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
notes:
  - One C(nvidia-smi) that hangs in the driver cannot even be killed. It is given up after O(nvidia_smi_timeout),
    the GPUs are V(unknown), and no other is started as long as it hangs.
  - With the connection V(local) the GPUs of the controller itself are read.
  - On a node O(node_view) and O(python) mean nothing.
seealso:
  - module: trainops.proxmox.gpu_idle
"""

EXAMPLES = r"""
- name: Read the GPUs
  trainops.proxmox.gpu_info:
  register: found

- name: Show who holds them
  ansible.builtin.debug:
    msg: "{{ found.table }}"

- name: Read every GPU of a node, on a host that is the node itself
  trainops.proxmox.gpu_info:
  connection: ssh

- name: Read them with a program that is on no PATH
  trainops.proxmox.gpu_info:
    nvidia_smi: /usr/local/nvidia/bin/nvidia-smi
"""

RETURN = r"""
summary:
  description: One line.
  returned: always
  type: str
  sample: "7 of 8 idle; GPU 3 busy: 2048 MiB held by vmid 201 (train-b) pid 212 python3 train.py"
msg:
  description: The same as RV(summary), or what went wrong and the fix.
  returned: always
  type: str
table:
  description: The GPUs with their holders as text, as wide as the terminal, or 80 columns.
  returned: success
  type: str
gpus:
  description: The GPUs of the container, or of the node, in the order of their indexes there.
  returned: always
  type: list
  elements: dict
  contains:
    index: {description: Its index where it was asked., type: int, sample: 3}
    uuid: {description: "Its UUID, the same everywhere.", type: str}
    name: {description: The card., type: str, sample: NVIDIA H200}
    minor: {description: "The N of its device file C(/dev/nvidiaN).", type: int}
    bus_id: {description: Its PCI address., type: str}
    memory_total_mib: {description: Memory of the card in MiB., type: int, sample: 143771}
    memory_used_mib: {description: "Memory in use in MiB, without the driver's reserve.", type: int}
    memory_free_mib: {description: Memory that is left in MiB., type: int}
    utilization_gpu_percent: {description: Share of the last moments in which it computed., type: int}
    temperature_celsius: {description: Its temperature., type: int}
    mig: {description: Whether it is split into MIG devices., type: bool}
    verdict: {description: "V(idle), V(busy) or V(unknown).", type: str}
    cause:
      description: >-
        A short word for a verdict that is not V(idle). V(process), V(opened), V(memory) or V(utilization) when busy.
        When unknown V(timeout), V(nvml-unknown-error), V(version-mismatch), V(format), V(memory-not-shown),
        V(no-permission), V(no-devices), V(not-found), V(driver-not-loaded), V(gpu-lost), V(gone) or V(failed).
      type: str
    reasons: {description: Why., type: list, elements: str}
    processes:
      description: Who holds it.
      type: list
      elements: dict
      contains:
        pid: {description: "PID in its container, null for a process of the node.", type: int}
        node_pid: {description: "PID on the node, null when only the container was asked.", type: int}
        vmid: {description: "Its container, null for a process of the node.", type: int}
        container: {description: The container's host name., type: str, sample: train-b}
        command: {description: Its command line., type: str}
        age_seconds: {description: Seconds since it was started., type: int}
        memory_mib: {description: "Memory that it owns on this GPU in MiB, null for none yet.", type: int}
        where:
          description: >-
            V(here) in this container, V(other) in another one (in any, when the node was asked), V(node) on the node
            itself, V(unknown) when it is listed and exists no longer.
          type: str
        run:
          description: The run of M(trainops.proxmox.training_run) that it belongs to. Null for others.
          type: str
          sample: r1
view:
  description:
    - V(node) when no holder can have been missed, V(inside) when the verdicts are as seen from inside the container.
    - V(partial) when the node was asked by a login that may not look at all processes there. Who owns memory is known
      then too, and a job that has only opened a GPU is not.
  returned: always
  type: str
view_reason:
  description: Why the view is not the node's. Empty when it is.
  returned: always
  type: str
driver_version:
  description: Version of the NVIDIA driver.
  returned: success
  type: str
  sample: 580.159.04
seconds:
  description: How long C(nvidia-smi) took.
  returned: success
  type: float
code:
  description: A short word for the failure, as in RV(gpus[].cause).
  returned: failure
  type: str
"""
