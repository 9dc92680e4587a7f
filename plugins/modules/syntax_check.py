# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What runs is the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: syntax_check
short_description: Check that a project's sources compile and its imports resolve
version_added: 0.1.0
author:
  - trainops contributors (@trainops)
description:
  - Compiles every Python source of a project, from its bytes, with the very interpreter that will run it in the
    container. Nothing is executed and nothing is written.
  - Resolves the imports. Names that the project's files import from each other must exist in them, and modules from
    elsewhere must be found by that interpreter.
  - Reads shell scripts with their own shell (C(-n)) in the container, and JSON, YAML and TOML files on the controller.
  - All problems of all files come back at once. What Python may still resolve when it runs, such as a name that a
    module binds dynamically, or an import inside C(try), is a warning and does not fail the task.
  - Only sources that this interpreter has not passed before travel. What it passed is kept with the live release by
    M(trainops.proxmox.training_release), see RV(checked).
  - With the connection V(local) the controller's own Python checks, so a CI job needs no container.
options:
  project:
    description:
      - The project. A folder, a list of folders and files, or a list of dictionaries with C(src) and C(dest).
      - Relative paths count from the current folder of the user.
    type: raw
    required: true
  exclude:
    description: Glob patterns of files and folders that do not belong to the project.
    type: list
    elements: str
    default: []
  root:
    description:
      - The folder in the container where the project is released, so that what has passed there is not checked again.
      - Without it every source is checked.
    type: str
  name:
    description: The project's name, as of M(trainops.proxmox.training_release).
    type: str
  shared:
    description: Names that every release has as links to one place outside it. Nothing is known of what they hold.
    type: list
    elements: str
    default: []
  python:
    description:
      - The interpreter that will run the project, a path in the container.
      - By default C(/usr/bin/python3), and with the connection V(local) the Python that runs Ansible.
    type: str
  pythonpath:
    description:
      - Folders that the run has on its path besides the project, as its C(PYTHONPATH) will say.
      - Relative ones count from O(root).
    type: list
    elements: str
    default: []
  optional_modules:
    description: Top-level modules that may be missing.
    type: list
    elements: str
    default: []
  missing_modules:
    description:
      - What a module is that the interpreter cannot find and that is not among O(optional_modules).
      - V(warning) is for a check by another interpreter than the one that will run the project.
    type: str
    choices: [error, warning]
    default: error
  timeout:
    description: Seconds after which the check is given up.
    type: float
    default: 600
  gpus:
    description:
      - Whether to look at the GPUs beside the check, within the same remote command, and to warn when they are busy.
      - So a person learns of it before anything goes live. Busy GPUs never fail the task. GPUs that O(select) or
        O(count) want and that do not exist do, since a later step would fail for them.
    type: bool
    default: false
  select:
    description:
      - The GPUs that a later step will want, as O(trainops.proxmox.gpu_idle#module:select).
      - What is wrong in itself is an error also without O(gpus).
    type: raw
  count:
    description: So many of them are enough, as O(trainops.proxmox.gpu_idle#module:count).
    type: int
  require:
    description: Whether the later step will fail when they are not idle, for the warning to say so.
    type: bool
    default: false
  idle_timeout:
    description: Seconds that it will wait for them, as O(trainops.proxmox.gpu_idle#module:timeout).
    type: float
    default: 0
  idle_interval:
    description: Seconds between two of its looks, as O(trainops.proxmox.gpu_idle#module:interval).
    type: float
    default: 5
extends_documentation_fragment:
  - trainops.proxmox.gpus
  - trainops.proxmox.limits
attributes:
  check_mode:
    description: It changes nothing, so it does the same in check mode.
    support: full
  diff_mode:
    description: It changes nothing.
    support: none
notes:
  - A release comes first on Python's path, so files of the project win over installed modules of the same name; a file
    that hides a module so is a warning.
seealso:
  - module: trainops.proxmox.training_release
"""

EXAMPLES = r"""
- name: Check a folder with the interpreter that will run it
  trainops.proxmox.syntax_check:
    project: ./scripts
    root: /root
    python: /root/venv/bin/python

- name: Check the sources in a CI job, without a container
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Check
      trainops.proxmox.syntax_check:
        project: ./scripts
        optional_modules: [flash_attn]
"""

RETURN = r"""
summary:
  description: One line, also of a refusal.
  returned: always
  type: str
  sample: "2 files compile, imports resolve        /root/venv/bin/python 3.12.3"
msg:
  description: Every problem on a line of its own, errors first.
  returned: always
  type: str
  sample: "train.py:12:1: dflash_model.py has no name DFlashConfig (did you mean DFlashConf?)"
python:
  description: The interpreter that checked.
  returned: success or refusal
  type: dict
  contains:
    path: {description: Its path., type: str, sample: /root/venv/bin/python}
    version: {description: Its version., type: str, sample: 3.12.3}
    implementation: {description: Its name., type: str, sample: cpython}
files_checked:
  description: Files that were checked, those of RV(files_cached) among them.
  returned: success or refusal
  type: int
files_cached:
  description: Files that this interpreter had passed before, so that their bytes did not travel.
  returned: success or refusal
  type: int
files_unread:
  description: Configuration files that were too large to be read.
  returned: success or refusal
  type: list
  elements: dict
  contains:
    file: {description: Path in the project., type: str}
    why: {description: Why it was not read., type: str}
problems:
  description: What was found, errors first.
  returned: success or refusal
  type: list
  elements: dict
  contains:
    file: {description: Path in the project., type: str}
    line: {description: Line; the first is 1., type: int}
    column: {description: Column; the first is 1., type: int}
    severity: {description: V(error) or V(warning)., type: str}
    code:
      description: >-
        V(syntax), V(syntax-warning), V(no-name), V(no-module), V(relative-import), V(hidden-module), V(shell), V(json),
        V(yaml), V(toml) or V(duplicate-key).
      type: str
    message: {description: What is wrong., type: str}
code:
  description: A short word for the failure.
  returned: failure
  type: str
  sample: refused
gpus:
  description: All GPUs as M(trainops.proxmox.gpu_info) returns them; with O(gpus=true).
  returned: success or refusal, with O(gpus=true)
  type: list
  elements: dict
checked:
  description: What passed now, for O(trainops.proxmox.training_release#module:checked); opaque.
  returned: success
  type: dict
"""
