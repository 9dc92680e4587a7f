"""The lab's own exceptions: expected failures with a text for a person."""

from __future__ import annotations


class LabError(Exception):
    """Something the user can act on; the command line prints its text and exits 1."""
