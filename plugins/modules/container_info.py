# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: container_info
short_description: What the Proxmox VE API knows of containers, and whether one can be worked in
version_added: 0.1.0
author:
  - trainops contributors (@trainops)
description:
  - Asks the API of a Proxmox VE cluster for LXC containers, their nodes, states, locks and GPUs. It only reads.
  - With O(ready) it fails in one sentence when nobody can work in the container now. That is where it is stopped,
    a template, being created, restored, moved, deleted or set back, or where its node is down.
  - It runs where the Python package C(proxmoxer) is and the API can be reached, which is the controller as a rule.
    Give its task C(delegate_to=localhost).
options:
  vmid:
    description:
      - The container's id. Without it all containers that the token may see are returned, with states that may be
        10 seconds old. What a token may not see is left out by Proxmox VE without a word.
    type: int
  ready:
    description: Whether to fail when the container cannot be worked in now. Needs O(vmid).
    type: bool
    default: false
  expect_address:
    description:
      - Address or name by which the container's node is going to be reached, such as C(ansible_host). Needs O(vmid).
      - It fails when the API knows this to be another node's. An address that the API does not know is not compared.
    type: str
extends_documentation_fragment:
  - trainops.proxmox.api
attributes:
  check_mode:
    description: It changes nothing.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
seealso:
  - module: trainops.proxmox.container_push
"""

EXAMPLES = r"""
- name: Is the container up, and on the node that we log in to
  trainops.proxmox.container_info:
    api_host: "{{ proxmox_api_host }}"
    api_token_id: automation@pve!ansible
    api_token_secret: "{{ vault_proxmox_token_secret }}"
    ca_path: "{{ playbook_dir }}/files/pve-root-ca.pem"
    vmid: "{{ proxmox_vmid }}"
    ready: true
    expect_address: "{{ ansible_host }}"
  delegate_to: localhost

- name: All containers that the token may see
  trainops.proxmox.container_info:
    api_host: pve1.example.com
    api_token_id: automation@pve!ansible
    api_token_secret: "{{ vault_proxmox_token_secret }}"
    api_fingerprint: "{{ pve1_fingerprint }}"
  delegate_to: localhost
  run_once: true
  register: found

- name: Those that have GPUs
  ansible.builtin.debug:
    msg: "{{ found.containers | selectattr('gpus') | map(attribute='name') }}"
  run_once: true
"""

RETURN = r"""
summary:
  description: One line.
  returned: success
  type: str
  sample: running on pve1, not locked
containers:
  description: The container, or all of them in the order of their ids.
  returned: when the API answered
  type: list
  elements: dict
  contains:
    vmid:
      description: Its id.
      type: int
    name:
      description: Its host name. Empty when its node has been down for minutes.
      type: str
    node:
      description: The node that it is on.
      type: str
    node_address:
      description: The node's address in the cluster. Null where the token may not see it.
      type: str
    status:
      description: V(running), V(stopped), or V(unknown) where its node does not answer.
      type: str
    lock:
      description: The operation that locks it, such as V(backup) or V(migrate). Null without one.
      type: str
    template:
      description: Whether it is a template.
      type: bool
    tags:
      description: Its tags.
      type: list
      elements: str
    unprivileged:
      description: Whether its users are others on the node. Null where its config could not be read.
      type: bool
    gpus:
      description:
        - Device nodes of GPUs on the node that its config gives it, as V(/dev/nvidia0), by C(dev0), by raw
          C(lxc.mount.entry), or for NVIDIA's mount hook the variable that says which, as
          V(NVIDIA_VISIBLE_DEVICES=all).
        - Null where its config could not be read. What a hookscript does is not in the API.
      type: list
      elements: str
  sample:
    - vmid: 200
      name: train-a
      node: pve1
      node_address: 10.1.2.6
      status: running
      lock: null
      template: false
      tags: [gpu]
      unprivileged: false
      gpus: [/dev/nvidia0, /dev/nvidia1]
code:
  description:
    - V(not-ready) and V(other-node) when the container cannot be worked in.
    - Otherwise what kept the API from answering, V(options), V(library), V(unreachable), V(untrusted), V(denied),
      V(not-found), V(node-down) or V(answer).
  returned: failure
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainops.proxmox.plugins.module_utils._container_info import look
from ansible_collections.trainops.proxmox.plugins.module_utils.api import (
    API_ARGUMENT_SPEC,
    Api,
    ApiError,
    loose_secrets,
    options_from,
)

SPEC = {
    "vmid": {"type": "int"},
    "ready": {"type": "bool", "default": False},
    "expect_address": {"type": "str"},
}


def main() -> None:
    """Ask, warn, and give what was found."""
    module = AnsibleModule(
        argument_spec={**API_ARGUMENT_SPEC, **SPEC},
        required_if=[("ready", True, ("vmid",))],
        required_by={"expect_address": ("vmid",)},
        supports_check_mode=True,
    )
    given = module.params
    # The result has the task's arguments in it, and a secret may be in the wrong one.
    module.no_log_values |= loose_secrets(given)
    try:
        found = look(Api(options_from(given)), given["vmid"], given["ready"], given["expect_address"])
    except ApiError as exc:
        module.fail_json(msg=exc.message, code=exc.kind)
    for warning in found.warnings:
        module.warn(warning)
    if found.refusal:
        module.fail_json(msg=found.refusal, code=found.code, containers=found.containers)
    module.exit_json(changed=False, summary=found.summary, containers=found.containers)


if __name__ == "__main__":
    main()
