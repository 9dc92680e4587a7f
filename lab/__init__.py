# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A one-machine stand-in of a Proxmox VE cluster: real LXC containers on nodes that are real OpenSSH servers.

A development tool: nothing in plugins/, roles/, playbooks/ or trainops/ knows of it.
"""
