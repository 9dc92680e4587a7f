"""Whether the ansible-core beside this package is one that the collection can run on."""

from __future__ import annotations

from trainops.errors import AnsibleMissing


def check_core() -> None:
    """Raises AnsibleMissing, with the collection's own sentence, when ansible-core is too old."""
    from ansible.errors import AnsibleError

    try:
        import ansible_collections.trainops.proxmox.plugins.plugin_utils  # noqa: F401 - it refuses to be imported
    except AnsibleError as error:
        raise AnsibleMissing(str(error)) from error
