"""A one-machine stand-in of a Proxmox VE cluster: real LXC containers on nodes that are real OpenSSH servers.

A development tool: nothing in plugins/, roles/, playbooks/ or trainops/ knows of it.
"""
