"""The trainops command and its Python API: deploy, launch and watch training runs in Proxmox VE containers."""
