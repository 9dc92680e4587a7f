# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of every module that asks the Proxmox VE API."""

from __future__ import annotations


class ModuleDocFragment:
    """Where the API is and how to log in; named as in community.proxmox where it has the same."""

    DOCUMENTATION = r"""
options:
  api_host:
    description:
      - Name or address of a node, or of whatever leads to the API of one. Any node of a cluster knows all of it.
      - Without it the environment variable E(PROXMOX_HOST) is read.
    type: str
  api_port:
    description: Port of the API, a whole number, or E(PROXMOX_PORT).
    type: raw
    default: 8006
  api_user:
    description:
      - The token's user with its realm, such as V(automation@pve), or E(PROXMOX_USER).
      - Not needed when O(api_token_id) has the user in it.
    type: str
  api_token_id:
    description: The token's name, or its full id such as V(automation@pve!ansible), or E(PROXMOX_TOKEN_ID).
    type: str
  api_token_secret:
    description:
      - The token's secret, or E(PROXMOX_TOKEN_SECRET). Keep it in a vault.
      - Only tokens can log in, since a login by password would go past O(api_fingerprint).
    type: str
  ca_path:
    description:
      - File with the certificates of the authorities that may have signed the API's certificate, or
        E(PROXMOX_CA_PATH), as an absolute path. For a cluster's own certificates that is a copy of
        C(/etc/pve/pve-root-ca.pem).
      - Without it and without O(api_fingerprint) the authorities count that the system trusts. The certificate is
        always verified.
    type: path
  api_fingerprint:
    description:
      - SHA-256 fingerprint of the API's certificate, as C(pvenode cert info) shows it, or E(PROXMOX_FINGERPRINT).
        Exactly this certificate is accepted then, whoever signed it and whatever name it is for.
      - With O(ca_path) as well, it must also be signed by one of these authorities.
    type: str
  api_timeout:
    description:
      - Seconds for one question in all, from looking up the name to the last byte of the answer, further attempts
        included. A connection must be there within 5 seconds.
      - A node takes up to 30 seconds to find out that another one is down.
    type: raw
    default: 35
requirements:
  - proxmoxer >= 2.2
  - requests >= 2.28
notes:
  - Reading needs the privilege C(VM.Audit) on C(/vms/ID), which the role C(PVEAuditor) has. Addresses of nodes need
    C(Sys.Audit) on C(/) too. A token with privilege separation may only what both it and its user may.
  - A question that got no answer is asked up to three times, within O(api_timeout).
  - An answer of more than 8 MiB is not read.
"""
