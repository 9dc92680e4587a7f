"""Measurements on the lab: deploys beside the bare commands that they replace, runs, and large files."""

from __future__ import annotations
