# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The controller's logic.

Every action, the connection and the callback import it before anything of theirs runs, so an ansible-core that is too
old ends here, in one sentence, and not wherever it first lacks something. Ansible itself only warns about it.
"""

from __future__ import annotations

import sys

from ansible.release import __version__
from ansible_collections.trainops.proxmox.plugins.plugin_utils.core_version import too_old

if _sentence := too_old(__version__, sys.version_info[:2], sys.executable):
    from ansible.errors import AnsibleError

    raise AnsibleError(_sentence)
