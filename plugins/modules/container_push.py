# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What runs is the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: container_push
short_description: Push files or folders to exact paths in an LXC container, each file whole and proven
version_added: 0.1.0
author:
  - trainops contributors (@trainops)
description:
  - Puts a file, or a folder with all that is in it, in its place in a container. Only files that differ by size or
    sha256 travel, in one remote command for any number of files, and in bounded memory for any size.
  - Each file is written beside its place, read back in the container and compared by size and sha256, brought to the
    disk and then renamed. Whoever reads the path sees the old file or the new one, never half a file. A push that was
    killed leaves the old or the new file, and the next push into that folder removes what it left beside it.
  - C(pct push) of Proxmox VE does none of this. It writes into the file that is there, and may exit 0 after a short
    write.
  - For a training project use M(trainops.proxmox.training_release), which switches all files of a project at once and
    can go back. This module is for single files and folders at their own places, such as a configuration in C(/etc).
  - "It runs in two ways. On the container as a host, over the connection P(trainops.proxmox.pct#connection). Or on
    localhost with O(vmid): the Proxmox VE API is asked for node, state and lock of the container when it is configured,
    and nothing is sent to one that is stopped, locked or absent. Then the bytes go over SSH to the node in any case.
    The Proxmox VE API cannot write into a container, whatever token it is given."
options:
  src:
    description:
      - File or folder on the controller. Ansible's usual search path counts for a relative one (C(files) of a role, the
        playbook's folder).
      - As in M(ansible.builtin.copy), of a folder with a slash at the end the content is pushed, of one without the
        folder itself, into O(dest).
      - Exactly what is named is pushed, also what M(trainops.proxmox.training_release) leaves out. Files encrypted by
        ansible-vault stay encrypted. A link that is named itself is followed.
      - Links in a folder stay links, unlike in M(ansible.builtin.copy). Those that are absolute or lead out of the
        folder, sockets, named pipes and devices are refused by name.
    type: path
    required: true
  dest:
    description:
      - Absolute path in the container. C(~) is the home of the container's root.
      - As in M(ansible.builtin.copy), a file goes into O(dest) when that is a folder or ends with a slash, and else
        becomes O(dest), whose folder must exist. For a folder, or with a slash at the end, missing folders are made.
      - Links on the way to O(dest) are followed, and the result says where that led. A link in the place of a file is
        replaced by the file and never written through, as M(ansible.builtin.copy) does by default, with a warning. A
        link in the place of a folder below O(dest) is refused, since it would lead out of what was named.
    type: str
    required: true
  owner:
    description:
      - User in the container, by name or number, that files, links and folders that are made get.
      - By default a file that is replaced keeps its owner, and a new one belongs to root.
    type: str
  group:
    description: Group in the container, by name or number. Otherwise as O(owner).
    type: str
  mode:
    description:
      - Permissions of files, in octal and in quotes (V('0644')), symbolic (V(u=rw,g=r,o=)), or V(preserve) for those
        that the file has on the controller.
      - By default a file that is replaced keeps its mode, and a new one gets what the umask leaves, normally V('0644').
    type: raw
  directory_mode:
    description: Permissions of folders that are made, as in O(mode). Folders that are there stay as they are.
    type: raw
  exclude:
    description:
      - Glob patterns of what in a folder is not pushed.
      - A pattern without a slash matches names at any depth, one with a slash the path in the folder, one that ends
        with a slash only folders. V(*) also matches slashes.
    type: list
    elements: str
    default: []
  python:
    description: Python 3.9 or newer in the container that does the work, a path.
    type: str
    default: /usr/bin/python3
  timeout:
    description: Seconds after which the whole step is given up. Each file is then the old or the new one.
    type: float
    default: 3600
  vmid:
    description:
      - Id of the container, for a task on localhost.
      - On a host with the connection P(trainops.proxmox.pct#connection) leave it out. The options of the API are not
        looked at there, and proxmoxer is not needed.
    type: int
  node_address:
    description:
      - With O(vmid), the node's address for SSH. By default the one that the API tells (C(/cluster/status)), else the
        node's name.
      - Required where the API is not configured. Then nothing is asked, and a stopped container is found out by the
        node.
    type: str
  node_user:
    description: With O(vmid), who logs in on the node.
    type: str
    default: root
  node_port:
    description: With O(vmid), the port of SSH on the node. By default what ssh would take (C(ansible_port) and so on).
    type: int
extends_documentation_fragment:
  - trainops.proxmox.api
attributes:
  check_mode:
    description: Predicts what the run then does, its errors too as far as they can be known, and writes nothing.
    support: full
  diff_mode:
    description: Shows texts, modes and owners against what is there, and other files by their size.
    support: full
notes:
  - With O(vmid), SSH options of the play's variables such as C(ansible_ssh_common_args) and
    C(ansible_ssh_private_key_file) apply to the login on the node, and C(proxmox_enter) and the like as for the
    connection P(trainops.proxmox.pct#connection).
  - A file that is replaced is a new file. Processes that have the old one open keep it, other hard links to it stay the
    old one, and access control lists and other extended attributes are not taken over.
  - Files in O(dest) that O(src) does not have stay.
  - Of several files each is atomic, not all together. When one fails, those before it are in their places, and RV(done)
    names them.
seealso:
  - module: trainops.proxmox.training_release
  - module: trainops.proxmox.container_info
  - module: ansible.builtin.copy
  - plugin: trainops.proxmox.pct
    plugin_type: connection
"""

EXAMPLES = r"""
- name: A file to an exact path, on the container as a host
  trainops.proxmox.container_push:
    src: limits.conf
    dest: /etc/security/limits.d/training.conf
    owner: root
    group: root
    mode: "0644"

- name: What is in a folder, with owners of the container
  trainops.proxmox.container_push:
    src: ./tokenizer/
    dest: /srv/models/tokenizer
    owner: trainer
    group: trainer
    directory_mode: "0750"
    exclude: ["*.tmp", ".git/"]

- name: From localhost, without any host for the container in the inventory
  hosts: localhost
  gather_facts: false
  tasks:
    - name: The API says where container 200 is and whether it runs, the bytes go by SSH to that node
      trainops.proxmox.container_push:
        vmid: 200
        src: train.yaml
        dest: /root/train.yaml
        api_host: pve1.example.com
        api_token_id: automation@pve!ansible
        api_token_secret: "{{ vault_proxmox_token }}"
        ca_path: pve-root-ca.pem

    - name: Without the API, by the node's address alone
      trainops.proxmox.container_push:
        vmid: 200
        node_address: 10.1.2.6
        src: train.yaml
        dest: /root/train.yaml

- name: What would change
  trainops.proxmox.container_push:
    src: ./tokenizer
    dest: /srv/models
  check_mode: true
  diff: true
"""

RETURN = r"""
summary:
  description: One line, also of a failure.
  returned: always
  type: str
  sample: "/srv/models/tokenizer: 5 files, 1 added, 2 changed, 61 kB, sha256 proven"
msg:
  description: The summary and, line by line, the files that changed.
  returned: always
  type: str
dest:
  description: The path in the container that O(dest) meant, with the name of what was put into a folder.
  returned: success
  type: str
  sample: /srv/models/tokenizer
files:
  description: Every file, folder and link that was asked for, and folders that are made on the way.
  returned: success
  type: list
  elements: dict
  contains:
    path: {description: Path in the container., type: str, sample: /srv/models/tokenizer/vocab.json}
    action:
      description: V(added), V(changed), V(mode) when only mode or owner differed, or V(unchanged).
      type: str
    type: {description: "V(file), V(link) or V(dir).", type: str}
    size: {description: Bytes., type: int}
    sha256: {description: "Of the content, of files only.", type: str}
    target: {description: "What a link says.", type: str}
    mode: {description: "Permissions of a file, octal.", type: str, sample: "0644"}
bytes_sent:
  description: Bytes of files that travelled, or in check mode would.
  returned: success
  type: int
  sample: 61440
node:
  description: The node, by the name that the API has for it, else by the address that was used.
  returned: when the container was looked for
  type: str
  sample: pve1
vmid:
  description: The container's id.
  returned: when the container was looked for
  type: int
  sample: 200
done:
  description: Paths that were in their places when a later one failed.
  returned: when a push failed after its first change
  type: list
  elements: str
diff:
  description: What changed, file by file.
  returned: in diff mode
  type: list
  elements: dict
code:
  description: A short word for the failure.
  returned: failure
  type: str
  sample: no-parent
"""
