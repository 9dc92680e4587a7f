"""The trainops command and its Python API: deploy to Proxmox VE containers, look, and go back."""

from __future__ import annotations

from trainops.operations import check, deploy, eject, gpus, rollback
from trainops.results import HostResult, Reason, Result, StepResult
from trainops.runner import run_playbook

__all__ = [
    "HostResult",
    "Reason",
    "Result",
    "StepResult",
    "check",
    "deploy",
    "eject",
    "gpus",
    "rollback",
    "run_playbook",
]
