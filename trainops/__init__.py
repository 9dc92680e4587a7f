"""The trainops command and its Python API: deploy to Proxmox VE containers, and go back."""

from __future__ import annotations

from typing import Any

from trainops.results import HostResult, Reason, Result, StepResult
from trainops.runner import run_playbook

__all__ = ["HostResult", "Reason", "Result", "StepResult", "deploy", "rollback", "run_playbook"]


def deploy(**options: Any) -> Result:
    """Check, release and look at the GPUs, as ``deploy_training`` says; ``options`` are those of run_playbook."""
    return run_playbook("deploy_training", **options)


def rollback(**options: Any) -> Result:
    """Go back to the release that was live before; ``options`` are those of run_playbook."""
    return run_playbook("rollback_training", **options)
