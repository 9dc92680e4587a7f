# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of every step that looks at GPUs."""

from __future__ import annotations


class ModuleDocFragment:
    """How the GPUs are read, and what counts as idle."""

    DOCUMENTATION = r"""
options:
  nvidia_smi:
    description:
      - Name or path of C(nvidia-smi) in the container.
      - A name is looked for on the PATH and where drivers put it, such as C(/usr/local/nvidia/bin).
      - On the node the same name or path is tried first, and C(nvidia-smi) in these places after it.
    type: str
    default: nvidia-smi
  nvidia_smi_timeout:
    description:
      - Seconds after which a C(nvidia-smi) that does not answer is given up, in the container and on the node.
      - A loaded GPU may take several seconds to answer, so a small value gives false alarms.
    type: float
    default: 30
  node_view:
    description:
      - Whether the node is asked who holds the GPUs, within the same remote command.
      - Without it, and where the login may not look at all processes there, a verdict is given as seen from inside.
    type: bool
    default: true
  memory_mib:
    description:
      - Memory in MiB that may be in use on an idle GPU, counted as C(nvidia-smi) counts, without the driver's
        reserve.
      - An idle GPU shows 0 to 20 MiB depending on card and driver, more with a display, while an empty CUDA context
        takes about 500 MiB. Set it above what your idle GPUs show.
      - A process that is known to hold a GPU makes it busy whatever this value is.
    type: int
    default: 64
  python:
    description:
      - Python 3.9 or newer in the container that runs the worker, a path.
      - By default C(/usr/bin/python3), and with the connection V(local) the Python that runs Ansible.
    type: str
"""
