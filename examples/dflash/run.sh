#!/bin/sh
# Start the training by hand, in the folder where it stands: PYTHON=/root/venv/bin/python ./run.sh --steps 100
set -eu
cd "$(dirname "$0")"
exec "${PYTHON:-python3}" train_dflash_pipeline.py --config config.toml "$@"
