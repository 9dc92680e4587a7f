"""``python -m trainops``."""

from __future__ import annotations

from trainops.cli import main

if __name__ == "__main__":
    main(prog_name="trainops")
