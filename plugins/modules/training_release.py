# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What runs is the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: training_release
short_description: Make a project live in a container as one immutable release, go back, compare, or eject it
version_added: 0.1.0
author:
  - trainops contributors (@trainops)
description:
  - Copies a project into a container as a release, a folder of its own that is never changed again, and makes all of it
    live by the rename of one link. A reader sees the old release or the new one, never a mix, and never half a file.
  - Only what the container does not have travels. Every file is read back in the container and compared by size and
    sha256 before anything goes live.
  - Each top-level name of the project becomes a link in O(root), so paths that other tools know keep working. Files and
    folders that are there already under these names (see O(adopt_folders)) are kept as the release V(adopted), and
    V(state=rolled_back) brings exactly those bytes back. They are moved, not copied, so a process that has one of them
    open goes on with it there.
  - What somebody changed in the live release by hand is found, kept as the release V(edited), and put right. What is
    written into V(adopted) and V(edited) later belongs to them, and comes back with them.
  - A release id is derived from the paths, modes and contents of the files, so it is the same on every host.
  - Modes are reduced to readable by all or by the owner only, executable or not. The owner is who runs the worker,
    normally root. A file's time is derived from its content, so that Python never takes old bytecode for current.
  - "Left out by default, and so never shown by C(--diff): version control (C(.git), C(.gitignore) …), what
    C(.gitignore) names (those in the project count outside of a git work tree, too; git must be installed on the
    controller, or there is a warning), bytecode, virtual environments, tool caches, editor backups and settings, and
    files encrypted by ansible-vault."
  - "Left out as secrets in any folder, with capitals or without, but for Python sources: C(.env), C(.env.*),
    C(*.env), C(.envrc), C(secrets.*), C(id_rsa*), C(id_dsa*), C(id_ecdsa*), C(id_ed25519*), C(*.pem), C(*.key),
    C(*.ppk), C(*.p12), C(*.pfx), C(*.jks), C(*.kdbx), C(*vault_pass*), C(*vault-pass*), C(.netrc), C(_netrc),
    C(.pgpass), C(.git-credentials), C(.pypirc), C(.npmrc), C(.htpasswd), C(kaggle.json), C(.docker/config.json),
    C(.cache/huggingface/token); the folders C(.ssh), C(.aws), C(.azure), C(.kube), C(.gnupg), C(.config/gcloud),
    C(.config/gh); and files that begin as a private key."
  - "Left out as inventories in any folder: data files called C(inventory*) or C(hosts), and the folders C(inventory),
    C(inventories) (unless they are Python packages), C(group_vars), C(host_vars). Beside the scripts, not deeper:
    C(ansible.cfg), and playbooks that are called as one of this collection, such as C(deploy_training.yml)."
  - RV(left_out) lists what was left out and why, and with C(-v) it is printed. A folder all of whose files are left out
    is shipped empty.
  - The project is read as it was at one moment, under any names that Linux allows. A file that changes meanwhile is
    read again. One that changes all the time, after its check or before it is sent, is an error, and nothing goes live.
    Links that stay in the project are kept. Links out of it, sockets, pipes and devices, what cannot be read, and paths
    of more than 3584 bytes are refused by name, all at once.
options:
  state:
    description:
      - V(released) makes O(project) live.
      - V(rolled_back) makes an earlier release live again, after every file of it was compared with its manifest.
      - V(compared) changes nothing. It says what was changed, added or removed by hand in the live release and under
        its names in O(root), and, with O(project), how the project on the controller differs from what is live. Both
        are told by content and against the release as it was made.
      - V(ejected) turns the links in O(root) into plain files and folders with what is live, and then removes
        C(.trainops/NAME) with all releases, V(adopted) among them, and C(.trainops) when no other project is there.
        The logs and records of runs are yours and stay, in C(.trainops/NAME/runs). It is refused while a run lives.
    type: str
    choices: [released, rolled_back, compared, ejected]
    default: released
  project:
    description:
      - The project. A path, or a list of paths and of dictionaries with C(src) and C(dest).
      - A folder means what is in it, a file means itself. C(dest) is the folder below O(root) for a folder's content,
        and the new path (or a folder, with a slash at its end) for a file. Two files with one destination are an error.
      - Relative paths count from the current folder of the user.
      - Required with O(state=released). With O(state=compared) it is compared when it is given. With the other states
        only the default of O(name) comes from it.
    type: raw
  root:
    description:
      - The folder in the container in which the project's names appear. It must exist.
      - It is also the working folder of runs, so C(./data) and C(./checkpoints) of a script stay where they are.
    type: str
    required: true
  name:
    description:
      - The project's name. Its releases are kept in C(.trainops/NAME) below O(root).
      - By default the name of the project's folder, or of its parent when that is C(scripts), C(src) or C(code).
        Without O(project) it is the only project below O(root).
    type: str
  exclude:
    description:
      - Glob patterns of files and folders that do not belong to the project.
      - A pattern without a slash matches names at any depth, one with a slash the path in the project, one that ends
        with a slash only folders. V(*) also matches slashes.
    type: list
    elements: str
    default: []
  shared:
    description:
      - Top-level names, such as C(data) and C(checkpoints), that live in O(root) outside of every release. Each release
        has a link to them, and nothing under these names is shipped. Those that are missing are made as empty folders.
    type: list
    elements: str
    default: []
  adopt_folders:
    description:
      - Whether a folder that is there already may be replaced by the project's folder of the same name although it has
        files that the project does not bring. They are then only in the release V(adopted).
      - By default that is refused, naming the folders, since what is hidden so may be data. Bytecode does not count.
    type: bool
    default: false
  keep_releases:
    description:
      - How many releases stay in the container. At least V(2).
      - What is live, what was live before it and what was adopted stays in any case. Files in an old release that no
        manifest lists, or that were changed, are moved to C(.trainops/NAME/kept) and reported.
    type: int
    default: 5
  to:
    description:
      - With O(state=rolled_back), the number of an activation, a release id or its first characters (at least four), or
        V(adopted).
      - By default what was live before. A second rollback without O(to) so returns to where the first one left from.
    type: str
  checked:
    description:
      - What M(trainops.proxmox.syntax_check) returned as RV(trainops.proxmox.syntax_check#module:checked). It is kept
        with the release, so that the next check needs only what changed.
    type: dict
  wait:
    description: Seconds to wait while another deploy or rollback of the project runs in the container.
    type: float
    default: 60
  timeout:
    description: Seconds after which the whole step is given up. What was live then still is.
    type: float
    default: 3600
  python:
    description: Python 3.9 or newer in the container that does the work, a path.
    type: str
    default: /usr/bin/python3
extends_documentation_fragment:
  - trainops.proxmox.limits
attributes:
  check_mode:
    description: Predicts what the run then does, its errors too, and writes nothing.
    support: full
  diff_mode:
    description: >-
      Shows texts against what is visible now, other files by their size. With O(state=compared) against the release as
      it was made.
    support: full
notes:
  - What differs by hand lies in the release (O(state=compared) says where), or in O(root) in place of a link, such as
    what an editor puts there that writes a new file. Runs read the release, other programs what is in O(root). What was
    released of a file that was changed by hand is shown as far as another release or the project still has its text.
  - Names in O(root) that belong to another project, to another tool (a link that leads elsewhere), or that are mount
    points, are refused by name before anything travels. So is a folder that holds the Python in use, and a lack of
    space or inodes, after old releases that O(keep_releases) lets go were removed to make room.
  - The lock of a project cannot go stale. The kernel gives it back when its holder ends.
  - An eject copies nothing. Each name and its link change places in one step, so a reader never misses a name, and a
    process that has a file open has the file that is in O(root) afterwards. One that ended early is finished by the
    next, or by a deploy.
  - What somebody altered in the live release stays as he left it, with a warning. Names in O(root) that are not the
    project's links are left alone, and so are files below C(.trainops/NAME) that no manifest lists. RV(left_alone) and
    RV(foreign) name them. Bytecode goes with the releases.
  - The names in O(shared) are in O(root) all the time, so an eject does not touch them.
  - To have back what was there before the first deploy, go back to V(adopted) and eject then. Nothing to eject is no
    failure.
seealso:
  - module: trainops.proxmox.syntax_check
  - module: trainops.proxmox.gpu_idle
"""

EXAMPLES = r"""
- name: Make the scripts live under /root
  trainops.proxmox.training_release:
    project: ./scripts
    root: /root
    python: /root/venv/bin/python

- name: A folder and a library of another repository, with data outside of every release
  trainops.proxmox.training_release:
    project:
      - ./scripts
      - src: ../common/losses
        dest: losses
    root: /srv/train
    name: dflash
    exclude: ["*.ipynb", "notes/"]
    shared: [data, checkpoints]
    keep_releases: 10

- name: What would change, as a diff
  trainops.proxmox.training_release:
    project: ./scripts
    root: /root
  check_mode: true
  diff: true

- name: What was changed by hand in the container, and what in the project since
  trainops.proxmox.training_release:
    state: compared
    project: ./scripts
    root: /root
  diff: true
  register: compared
  failed_when: compared.differs

- name: Back to what was live before
  trainops.proxmox.training_release:
    state: rolled_back
    project: ./scripts
    root: /root

- name: Back to the files that were there before the first deploy
  trainops.proxmox.training_release:
    state: rolled_back
    name: dflash
    root: /root
    to: adopted

- name: No releases any more, plain files with what is live
  trainops.proxmox.training_release:
    state: ejected
    name: dflash
    root: /root
"""

RETURN = r"""
summary:
  description: One line, also of a failure.
  returned: always
  type: str
  sample: 7c1e09a live at /root, 2 changed, 61 kB, sha256 proven (what was there is release "adopted")
msg:
  description: The summary and, line by line, the files that changed.
  returned: always
  type: str
release_id:
  description: >-
    What is live now, 64 hexadecimal digits, or V(adopted), V(edited) and the like. Null after an eject, and where
    nothing is live.
  returned: success
  type: str
  sample: 7c1e09a1f2b34ce1a6c2c1a0b7d5b0e1d1a1f0f6a3ad9b8ce4c5b0b9e8d7c6f5
previous_release_id:
  description: What was live before, null when nothing was.
  returned: success, but with O(state=compared)
  type: str
activation:
  description: The number of the moment at which it went live. A, B and A again are three activations.
  returned: success, but with O(state=ejected)
  type: int
  sample: 3
root:
  description: Where the names are.
  returned: success
  type: str
name:
  description: The project's name.
  returned: success
  type: str
files:
  description: Every file of the release, and those that went. With O(state=ejected) those that became plain files.
  returned: success, but with O(state=compared)
  type: list
  elements: dict
  contains:
    path: {description: Path below the root., type: str, sample: train.py}
    action:
      description: >-
        V(added), V(changed), V(removed) or V(unchanged) against what was visible before; V(adopted) is what stood in a
        folder of the same name and is now only in the release that keeps it; V(ejected) is a plain file now.
      type: str
    type: {description: "V(file), V(link), V(dir) or V(shared).", type: str}
    size: {description: Bytes., type: int}
    mode: {description: "Permissions, octal.", type: str, sample: "0644"}
    sha256: {description: "Of the content, of files only.", type: str}
    target: {description: "What a link says.", type: str}
bytes_sent:
  description: Bytes of files that travelled.
  returned: success, with O(state=released) and O(state=rolled_back)
  type: int
  sample: 61440
adopted:
  description: The release that keeps what was visible and that no release had, null when there was no such thing.
  returned: success, with O(state=released) and O(state=rolled_back)
  type: str
  sample: adopted
drift:
  description: >-
    Paths that somebody had changed in the live release. With O(state=compared) also those that he added, and names in
    O(root) that are not as they were.
  returned: success
  type: list
  elements: str
mended:
  description: Paths whose mode or time, and names whose link, was put right in place.
  returned: success, with O(state=released) and O(state=rolled_back)
  type: list
  elements: str
source:
  description: Where the release came from.
  returned: success, but with O(state=ejected)
  type: dict
  contains:
    commit: {description: "The checked-out git commit, null without one.", type: str}
    dirty: {description: "Whether what was shipped differs from it.", type: bool}
left_out:
  description: What of the project was not shipped.
  returned: success, with O(state=released)
  type: list
  elements: dict
  contains:
    path: {description: Path in the project., type: str, sample: inventory.yml}
    why: {description: The reason., type: str, sample: inventory}
pruned:
  description: Ids of old releases that were removed.
  returned: success, with O(state=released) and O(state=rolled_back)
  type: list
  elements: str
foreign:
  description: >-
    Where files are now that were found in removed releases and that no manifest lists, or that changed. After an eject
    everything that is left below C(.trainops/NAME).
  returned: success
  type: list
  elements: str
strays:
  description:
    - Files in the release that was live that no manifest lists, such as what runs wrote there. They stay in its folder
      and are out of view. Name what runs write to in O(shared).
  returned: success, with O(state=released) and O(state=rolled_back)
  type: dict
  contains:
    count: {description: How many., type: int, sample: 2}
    bytes: {description: Their size., type: int}
    names: {description: The top-level names that they are in., type: list, elements: str, sample: [out]}
    paths: {description: Where the first hundred of them are., type: list, elements: str}
differs:
  description: Whether anything differs, by hand or in the project.
  returned: success, with O(state=compared)
  type: bool
by_hand:
  description: What is not as it was released.
  returned: success, with O(state=compared)
  type: list
  elements: dict
  contains: &difference
    path: {description: Path below the root., type: str, sample: train.py}
    at: {description: "Where it is in the container. Not in RV(in_project).", type: str, sample: /root/train.py}
    action: {description: "V(changed), V(added) or V(removed).", type: str}
    before:
      description: What was released as C(type), C(mode), C(size), C(sha256) and C(target). Null where it was not.
      type: dict
    after:
      description: >-
        What is there instead. Null where there is nothing. C(sha256) is null where the size alone shows that it
        differs.
      type: dict
in_project:
  description: How the project differs from what was released. Null without O(project).
  returned: success, with O(state=compared)
  type: list
  elements: dict
  contains: *difference
ejected:
  description: The names in the root that became what they led to.
  returned: success, with O(state=ejected)
  type: list
  elements: dict
  contains:
    path: {description: The name., type: str, sample: train.py}
    type: {description: "V(file), V(folder), V(link) or V(other).", type: str}
removed:
  description: The releases that are gone, but for the one that became plain files.
  returned: success, with O(state=ejected)
  type: list
  elements: dict
  contains:
    release_id: {description: Its id., type: str, sample: adopted}
    files: {description: How many., type: int, sample: 2}
    bytes: {description: Their size., type: int, sample: 61440}
left_alone:
  description: Names in the root that are not ours.
  returned: success, with O(state=ejected)
  type: list
  elements: dict
  contains:
    path: {description: Where it is., type: str, sample: /root/train.py}
    why: {description: What it is., type: str, sample: not the project's link but a file}
running:
  description: >-
    Python programs in the container that run a script of the project. What they have loaded and opened they keep, what
    they import or start from the release later is missing. In check mode too, so look before you eject.
  returned: success, with O(state=ejected)
  type: list
  elements: dict
  contains:
    pid: {description: Its PID in the container., type: int, sample: 4711}
    command: {description: Its command line., type: str, sample: python3 train.py}
runs_kept:
  description: >-
    The logs and records of runs, which are yours and stay in C(.trainops/NAME/runs). Null without any. While a process
    of a run is left, nothing is ejected.
  returned: success, with O(state=ejected)
  type: dict
  contains:
    count: {description: How many runs., type: int, sample: 3}
    path: {description: Where they are., type: str, sample: /root/.trainops/dflash/runs}
others:
  description: Other projects below the root.
  returned: success, with O(state=ejected)
  type: list
  elements: str
waits_for:
  description: >-
    In check mode, and with O(state=compared), who holds the project's lock now, so that a run would wait. Null when
    nobody does.
  returned: success
  type: str
  sample: ann@desk since 2026-05-04T09:12:33Z (process 4711 there)
diff:
  description: What changed, file by file.
  returned: in diff mode
  type: list
  elements: dict
code:
  description: A short word for the failure.
  returned: failure
  type: str
  sample: conflict
"""

CONSTRAINTS = {
    "required_if": [("state", "released", ("project",))],
}
