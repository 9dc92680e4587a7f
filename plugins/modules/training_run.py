# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What runs is the action plugin of the same name.

from __future__ import annotations

DOCUMENTATION = r"""
module: training_run
short_description: Start, watch, stop and explain a run of a release in a container
version_added: 0.1.0
author:
  - trainops contributors (@trainops)
description:
  - Starts a run of a release that M(trainops.proxmox.training_release) made live. The run goes on when the connection,
    Ansible or the login on the node ends. It is started by the release's real path, so that the next deploy does not
    touch it, with the release first on C(sys.path) and O(root) as its working folder.
  - GPUs must be idle, by the same rule as M(trainops.proxmox.gpu_idle). That is checked within the remote command that
    starts the run, on the node too. The run sees its GPUs and no others.
  - What waits for the process in the container writes how it ended. It is never said to have ended well when nobody
    knows. See RV(exit).
  - Where systemd is the container's init a run is a transient unit, otherwise it has a supervisor of its own. What it
    does and what is returned is the same.
  - A run is known by its id, such as V(r1). An id is never used twice in a project.
options:
  state:
    description:
      - V(started) starts a run and returns as soon as its process runs, normally in less than three seconds.
      - V(watched) follows a run until O(until) is there, or until it ends, whichever comes first.
      - V(stopped) asks a run to end and gives it time, then kills all its processes. It is done when none is left.
      - V(listed) tells the runs of a project, or of all projects below O(root).
      - V(explained) gathers why a run ended.
    type: str
    choices: [started, watched, stopped, listed, explained]
    default: started
  root:
    description: The folder in the container where the project is released. It is also the working folder of its runs.
    type: str
    required: true
  name:
    description:
      - The project's name.
      - By default as with M(trainops.proxmox.training_release), from O(project). Without that it is the only project
        below O(root), and with O(state=listed) all of them.
    type: str
  project:
    description: The project on the controller, of which the name is taken, and with O(compare) what it is now.
    type: raw
  compare:
    description:
      - With O(state=started), whether to warn when O(project) is not what is live, as after an edit without a deploy.
      - It is read beside the start, as M(trainops.proxmox.training_release) would read it, and nothing is warned of
        where that cannot be. With O(release) it is not read.
    type: bool
    default: false
  unwatched:
    description:
      - With O(state=started), whether RV(summary) says that nobody watches the run, and how to look. A run that dies
        after its start makes no task fail then.
      - The role sets it where neither C(training_until) nor C(training_watch) asks for a watch.
    type: bool
    default: false
  exclude:
    description: For O(compare), as O(trainops.proxmox.training_release#module:exclude).
    type: list
    elements: str
    default: []
  shared:
    description: For O(compare), as O(trainops.proxmox.training_release#module:shared).
    type: list
    elements: str
    default: []
  run:
    description:
      - Which run, such as V(r1).
      - By default with O(state=watched) and O(state=explained) the latest, with O(state=stopped) the only one that is
        alive, where V(all) means every one that is.
    type: str
  command:
    description:
      - What to run, a list of words, or one text that is split into words as C(sh) would split it, with its quotes and
        backslashes. No shell is between, so a text with C($NAME), C(|), C(>) and the like outside of C('...') is
        refused. Where a shell is needed, name it, as in C([bash, -c, "..."]). Patterns such as C(*) stay as they are.
      - C({release}) is the folder of the release and C({python}) the path in O(python), anywhere in a word.
      - The first word is looked for on the PATH of the run, which begins with the folder of O(python), so that
        C(torchrun) is found.
    type: raw
  script:
    description:
      - The short form of O(command). A script of the release, which is run by O(python). A relative path counts from
        the release.
    type: str
  args:
    description: The arguments of O(script), a list of words, or one text as in O(command).
    type: raw
  like:
    description:
      - An earlier run, such as V(r1), whose command and environment are used again. What else is set here wins over it.
      - What merely stands in an inventory is not set here. Of the roles' variables only those win that are given with
        C(-e), or by a play, a task or whoever includes the role. The others lend the values that the earlier run had
        and that were not recorded, see O(env). A warning says what is not as they have it.
      - The release is the one that is live, unless O(release) names another.
    type: str
  release:
    description: A release id, or its first characters (at least four), or V(adopted). By default the live one.
    type: str
  env:
    description:
      - Environment variables of the run, a mapping of names to texts. One text of C(NAME=VALUE) words with a comma or
        a blank between, as C(-e training_env=NAME=VALUE) gives it, is read as such a mapping, and so is one in JSON.
      - A value is recorded with the run where the name is known to be harmless (C(PATH), C(LANG), C(TZ), C(CUDA_*),
        C(NCCL_*), C(OMP_*), C(TORCH*), C(PYTHON*) and the like), or where it is a number, a truth value or a path that
        is there. Of all others only a digest is kept, which tells whether a later run has the same value.
      - Words of O(command) and O(args) are recorded but for what looks like a secret. Whoever sees processes sees all
        of them, so that a secret belongs into O(env_file).
      - Besides them a run has only a clean environment, which O(env_file) can add to.
    type: raw
    default: {}
  env_file:
    description:
      - A file in the container with C(NAME=VALUE) lines that go into the run's environment, for secrets that stay
        there. O(env) wins over it. A relative path counts from O(root). Its values are not recorded.
    type: str
  pythonpath:
    description: Folders on Python's path after the release. Relative ones count from O(root).
    type: list
    elements: str
    default: []
  select:
    description:
      - Which GPUs, as with M(trainops.proxmox.gpu_idle). A number of GPUs, a list of indexes and UUIDs, or a JMESPath
        expression. By default all.
      - V(0) or an empty list is a run without GPUs. Nothing is asked of C(nvidia-smi) then, and the run sees none.
    type: raw
  count:
    description: So many of the selected GPUs are enough. Those with the lowest indexes among the idle ones are taken.
    type: int
  idle_timeout:
    description: Seconds to wait for GPUs that are not idle. By default a launch on busy GPUs is refused at once.
    type: float
    default: 0
  idle_interval:
    description: Seconds between two looks while it waits.
    type: float
    default: 5
  systemd:
    description: V(auto) starts a transient unit where systemd is the container's init. V(never) does not.
    type: str
    choices: [auto, never]
    default: auto
  until:
    description:
      - With O(state=watched), what to wait for. Of several the first one counts. The end of the run always ends it.
        With exit code 0 that is a success, where RV(reached) is false. A short run may be done before any sign.
      - Without it the run is followed to its end.
    type: dict
    suboptions:
      log:
        description: A regular expression (Python's) that a line of the log matches somewhere.
        type: str
      file:
        description: A file that was written after the run began. A relative path counts from O(root).
        type: str
      value:
        description: The name of a group in O(values), any value of which will do. V(*) is any of them.
        type: str
      gpu_memory_mib:
        description: Every GPU of the run has at least so much memory in use.
        type: int
      gpu_utilization_percent:
        description: Every GPU of the run is used at least so much.
        type: int
  until_timeout:
    description:
      - Seconds to wait for O(until), after which the task fails. The run goes on. V(0) is as long as the run.
    type: float
    default: 900
  follow:
    description: With O(state=watched), whether to wait for more than what is in the log now.
    type: bool
    default: true
  show:
    description:
      - With O(state=watched), whether lines of the log are printed as they come. Whatever a terminal would obey in them
        is written out. With several hosts in the play each line begins with its host. With one, a line that looks as if
        it were one of ours or of Ansible begins with C(|).
      - Of a run that prints faster than 4 MiB at once and 256 kiB a second after that, lines are left out, and a line
        says how many bytes. The log itself has all of them, and O(until) is looked for in all of them.
    type: bool
    default: true
  offset:
    description:
      - With O(state=watched), the byte of the log to begin at, to go on after an earlier RV(offset).
      - By default it begins with the last O(lines) lines, and with O(until) at the beginning of the log.
    type: int
  stall_seconds:
    description:
      - After so many seconds without output a run is reported as stalled, if each of its GPUs is used 5 % at most.
      - A silent log alone is not reported, since an epoch or a checkpoint may take long, and neither is a run without
        GPUs.
    type: float
    default: 300
  values:
    description:
      - Regular expressions (Python's) with named groups. What they matched last in the log is in RV(found).
      - By default C(step), C(loss) and C(tokens_per_s) are found in lines such as C(step 12 loss 3.4 tokens/s 1200).
    type: list
    elements: str
  lines:
    description: So many of the last lines of a log are shown, with O(state=listed) of each.
    type: int
    default: 0
  history:
    description:
      - With O(state=listed), so many of the last activations of each project are in RV(table), with who made which
        release live when, from which commit, and which runs use it. RV(projects) has all of them in any case.
      - Of the runs that are over so many of each project are there too, at least the last 5. RV(runs) has all.
      - By default 5 where a play has one host, and none where it has more.
    type: int
  signal:
    description: With O(state=stopped), the signal that asks the run to end.
    type: str
    choices: [INT, TERM]
    default: TERM
  patience:
    description: With O(state=stopped), seconds for the run to save a checkpoint and end, before it is killed.
    type: float
    default: 60
  timeout:
    description: Seconds after which a remote command is given up. A run that was started goes on.
    type: float
    default: 120
  python:
    description: Python 3.9 or newer in the container, a path. It does the work, and it is what a run is started with.
    type: str
    default: /usr/bin/python3
extends_documentation_fragment:
  - trainops.proxmox.gpus
  - trainops.proxmox.limits
attributes:
  check_mode:
    description: With O(state=started) and O(state=stopped) it looks whether that would be possible, and does nothing.
    support: full
  diff_mode:
    description: A run is no text that changes.
    support: none
notes:
  - A connection that is lost in the middle of a start is made again, and the same start is asked for. A second copy is
    never started, since the container knows the start by a random word that was made once for the task.
  - The log of a run is a file in the container that the run itself writes. RV(log) is its path.
  - C(TORCHINDUCTOR_CACHE_DIR) and C(TRITON_CACHE_DIR), unless O(env) sets them, are folders below
    C(.trainops/NAME/cache), which no deploy removes. RV(cache_bytes) is their size.
  - C(CUDA_VISIBLE_DEVICES) holds the numbers of the run's GPUs as the container counts them, with
    C(CUDA_DEVICE_ORDER=PCI_BUS_ID).
  - What was started by hand is never stopped, and neither is another run.
seealso:
  - module: trainops.proxmox.training_release
  - module: trainops.proxmox.gpu_idle
"""

EXAMPLES = r"""
- name: Start the live release on two idle GPUs
  trainops.proxmox.training_run:
    root: /root
    name: dflash
    script: train_dflash_pipeline.py
    args: --lr 1e-4
    select: 2
    python: /root/venv/bin/python
  register: started

- name: Wait for its first step
  trainops.proxmox.training_run:
    state: watched
    root: /root
    name: dflash
    run: "{{ started.run }}"
    until:
      log: "step 1 "
    python: /root/venv/bin/python

- name: Start with torchrun, with a secret that stays in the container
  trainops.proxmox.training_run:
    root: /root
    name: dflash
    command: torchrun --nproc_per_node 8 {release}/train_dflash_pipeline.py
    env:
      NCCL_DEBUG: WARN
    env_file: /root/secrets.env

- name: The same again with the release that is live now
  trainops.proxmox.training_run:
    root: /root
    name: dflash
    like: r1

- name: Stop it, with time for a checkpoint
  trainops.proxmox.training_run:
    state: stopped
    root: /root
    name: dflash
    patience: 300
"""

RETURN = r"""
summary:
  description: One line, also of a failure.
  returned: always
  type: str
  sample: run r1 of 7c1e09a on GPUs 0-7
msg:
  description: The summary and, line by line, what else a person wants to know.
  returned: always
  type: str
run:
  description: The id of the run. Null with O(state=listed), and when nothing was started.
  returned: always, but with O(state=listed)
  type: str
  sample: r1
name:
  description: The project's name.
  returned: success, but with O(state=listed) and in check mode
  type: str
state:
  description: >-
    V(starting), V(running), V(ended), or V(lost) when the process is gone and nobody saw how it ended. With
    O(state=started) in check mode, V(possible).
  returned: success, but with O(state=listed)
  type: str
  sample: running
release_id:
  description: The release that the run was started from.
  returned: success, but with O(state=listed)
  type: str
pid:
  description: The PID of its main process in the container. Null when there is none.
  returned: success, but with O(state=listed)
  type: int
  sample: 4711
log:
  description: The file in the container that it writes its output to.
  returned: success, but with O(state=listed)
  type: str
  sample: /root/.trainops/dflash/runs/r1/log
gpus:
  description: The GPUs of the run. Of a refused start, the GPUs of the container and who holds them.
  returned: always, but with O(state=listed)
  type: list
  elements: dict
  contains:
    index: {description: Its number in the container., type: int, sample: 0}
    uuid: {description: Its UUID., type: str}
command:
  description: The words that were started, with C(***) for what looks like a secret.
  returned: success, with O(state=started) and O(state=explained)
  type: list
  elements: str
environment:
  description: >-
    The environment that was recorded with the run. The value is null where it came from O(env_file) or may be a
    secret.
  returned: success, with O(state=started)
  type: dict
unit:
  description: The systemd unit, null without one.
  returned: success, with O(state=started)
  type: str
started:
  description: When its process began.
  returned: success, but with O(state=listed)
  type: str
  sample: "2026-05-04T09:12:33Z"
exit:
  description: The record of its end. Null while it runs, and when nobody saw it end.
  returned: success, but with O(state=listed)
  type: dict
  contains:
    ended: {description: When., type: str}
    seconds: {description: How long it ran., type: float}
    exit_code: {description: "Its exit code, null when a signal ended it or when it is not known.", type: int}
    signal: {description: "The signal that ended it, null without one.", type: int}
    out_of_memory: {description: "Whether the kernel ended it for lack of memory, null when not known.", type: bool}
    how: {description: "V(exited), V(signaled), V(not-started) or V(unknown).", type: str}
    stopped_by: {description: "Who asked it to stop, null when nobody did.", type: str}
    last_lines: {description: The last lines of its log., type: list, elements: str}
    note: {description: What else is known., type: str}
found:
  description: What the patterns in O(values) matched last, by the names of their groups.
  returned: success, with O(state=watched)
  type: dict
  sample: {step: 12, loss: 3.4, tokens_per_s: 1200}
traceback:
  description: The lines of the last traceback in its log, when it is over. Empty without one.
  returned: success and failure, with O(state=watched) and O(state=explained)
  type: list
  elements: str
reached:
  description: Whether what O(until) asks for is there.
  returned: success, with O(state=watched)
  type: bool
offset:
  description: The byte of the log behind what was read.
  returned: success, with O(state=watched)
  type: int
differs:
  description: What is different from the last run that ended with exit code 0.
  returned: success, with O(state=started)
  type: list
  elements: dict
  contains:
    what: {description: "A distribution, C(Python), C(driver), C(command) and the like.", type: str, sample: torch}
    before: {description: "What it was, null when it was not there.", type: str, sample: 2.11.0+cu128}
    now: {description: "What it is, null when it is not there.", type: str, sample: 2.12.0}
repeated:
  description: Whether the run had been started already, before the connection was lost.
  returned: success, with O(state=started)
  type: bool
cache_bytes:
  description: The size of the compile caches that runs of the project share. Null when to count it takes long.
  returned: success, with O(state=started)
  type: int
view:
  description: As in RV(trainops.proxmox.gpu_idle#module:view). Null for a run without GPUs.
  returned: with O(state=started)
  type: str
altered:
  description: Files of the release that somebody has changed by hand.
  returned: success, with O(state=started)
  type: list
  elements: str
processes_killed:
  description: What had to be killed, after it was asked to end.
  returned: success, with O(state=stopped)
  type: list
  elements: dict
stopped:
  description: The runs that were stopped, with O(run=all) more than one.
  returned: success, with O(state=stopped)
  type: list
  elements: dict
runs:
  description: The runs, the latest first.
  returned: success, with O(state=listed)
  type: list
  elements: dict
  contains:
    run: {description: Its id., type: str, sample: r1}
    project: {description: The name of its project., type: str}
    state: {description: As RV(state)., type: str}
    release: {description: The release that it was started from., type: str}
    gpus: {description: As RV(gpus)., type: list, elements: dict}
    exit: {description: As RV(exit)., type: dict}
    age_s: {description: Seconds since it was started., type: float}
    log_bytes: {description: The size of its log., type: int}
    log_age_s: {description: Seconds since its log grew., type: float}
    stalled: {description: Whether its log is silent and its GPUs are unused., type: bool}
    found: {description: As RV(found)., type: dict}
    tail: {description: The last O(lines) lines of its log., type: list, elements: str}
projects:
  description: The projects that there are.
  returned: success, with O(state=listed)
  type: list
  elements: dict
  contains:
    name: {description: Its name., type: str}
    live: {description: "The release that is live, null when nothing is.", type: str}
    activations:
      description: >-
        The moments at which releases went live, the oldest first, as C(activation) (its number), C(release), C(from),
        C(time), C(who), C(kind) (deploy, rollback, adopt or found), C(commit) and C(dirty).
      type: list
      elements: dict
    releases: {description: "The releases that are there, to which a rollback can go.", type: list, elements: str}
    cache_bytes: {description: "The size of its compile caches, null when to count it takes long.", type: int}
live:
  description: The release that is live, by project.
  returned: success, with O(state=listed)
  type: dict
table:
  description: The runs as text, in at most 80 columns.
  returned: success, with O(state=listed)
  type: str
cause:
  description: Why it ended, a sentence each, the most likely reason first.
  returned: success, with O(state=explained)
  type: list
  elements: str
causes:
  description: The same with a word for programs.
  returned: success, with O(state=explained)
  type: list
  elements: dict
  contains:
    code:
      description: >-
        V(alive), V(not-started), V(stopped), V(ended-well), V(restarted), V(out-of-memory), V(gpu-hardware),
        V(gpu-memory), V(shared-memory), V(disk-full), V(nccl), V(import), V(gpu-program), V(killed), V(exception),
        V(lost) or V(unknown).
      type: str
    text: {description: The sentence., type: str}
evidence:
  description: What is known besides, a line each.
  returned: success, with O(state=explained)
  type: list
  elements: str
xids:
  description: Errors of its GPUs, of the node's kernel log in its time.
  returned: success, with O(state=explained)
  type: list
  elements: dict
  contains:
    time: {description: When., type: str}
    bus: {description: The PCI address of the GPU., type: str, sample: "0000:18:00"}
    number: {description: The number of the error., type: int, sample: 79}
    text: {description: What the driver said., type: str}
    meaning: {description: What the number means., type: str}
last_lines:
  description: The last lines of its log.
  returned: success, with O(state=explained)
  type: list
  elements: str
code:
  description: A short word for the failure.
  returned: failure
  type: str
  sample: gpus-busy
"""
