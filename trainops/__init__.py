"""The trainops command and its Python API: deploy to Proxmox VE containers, launch, watch, and go back."""

from __future__ import annotations

from trainops.operations import check, deploy, diff, eject, gpus, launch, logs, rollback, status, stop, why
from trainops.results import HostResult, Reason, Result, StepResult
from trainops.runner import run_playbook

__all__ = [
    "HostResult",
    "Reason",
    "Result",
    "StepResult",
    "check",
    "deploy",
    "diff",
    "eject",
    "gpus",
    "launch",
    "logs",
    "rollback",
    "run_playbook",
    "status",
    "stop",
    "why",
]
