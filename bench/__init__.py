"""Measurements on the lab: deploys beside the bare commands that they replace, and large files through copy."""

from __future__ import annotations
