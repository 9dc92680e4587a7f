# What a developer or a CI job calls; `make` alone lists it. Each target sets up what it needs by itself.
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Ansible refuses a locale that is not UTF-8; this one is there on every Debian.
export LC_ALL := C.UTF-8

# Three processes, a file of tests at a time, each with a lab of its own (tests/conftest.py): journeys wait more than
# they compute. In the order of their names, since the longest come first so. Sockets' paths in the folders of tests
# must stay below 108 bytes, so these have a short one.
SIDE_BY_SIDE := -n 3 --dist loadfile --no-loadscope-reorder

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile | while IFS=: read -r name text; do printf '%-12s%s\n' "$$name" "$$text"; done

.PHONY: venv
venv: ## make .venv with the newest Python that runs (3.11 to 3.13), this repository as its collection
	@tools/setup venv

.PHONY: deps
deps: ## install the Debian packages that the lab needs (as root)
	@tools/setup deps

.PHONY: test
test: deps venv ## run everything: lint, molecule, then unit tests and journeys on the lab
	@python tools/lint.py
	@$(MAKE) molecule
	@folder=$$(mktemp -d /tmp/t-XXXXXX) && trap 'rm -rf "$$folder"' EXIT && \
	    python -m pytest $(SIDE_BY_SIDE) --basetemp="$$folder/p" $(PYTEST_ARGS)

.PHONY: test-matrix
test-matrix: deps ## run every test on the oldest and the newest ansible-core, each in an environment of its own
	@"$$(tools/setup python)" tools/matrix.py $(PYTEST_ARGS)

.PHONY: unit
unit: venv ## run the unit tests (PYTEST_ARGS="-k name" passes options)
	@python -m pytest tests/unit $(PYTEST_ARGS)

.PHONY: lint
lint: venv ## run every static check; `make lint CHECKS="mypy yamllint"` runs some
	@python tools/lint.py $(CHECKS)

.PHONY: molecule
molecule: deps venv ## run the molecule scenarios on the lab
	@molecule test --all

.PHONY: faults
faults: deps venv ## interrupt deploys on the lab at random moments (SEED=1 COUNT=400 say which and how many)
	@nice -n 10 python -m tests.faults --seed $(or $(SEED),1) --count $(or $(COUNT),400)

.PHONY: docs
docs: venv ## make docs/reference anew from the plugins' own documentation, docs/messages.md and docs/faults.md from the tests
	@python tools/docs.py
	@python -m tests.integration.messages
	@python -m tests.faults.told

.PHONY: lab
lab: deps venv ## start the one-machine lab (or repair it)
	@python -m lab up

.PHONY: demo
demo: deps venv ## run the main job on the lab, launch and stop runs, and show it
	@python -m lab.demo

.PHONY: transcript
transcript: deps venv ## play a user's first ten minutes on the lab and record them as docs/first-deploy.md
	@python -m lab.first_deploy

.PHONY: bench
bench: deps venv ## measure deploys beside the bare commands, and runs, on the lab
	@python -m bench

.PHONY: dist
dist: venv ## build wheel, sdist and Galaxy tarball into dist/
	@python -m build --no-isolation --outdir dist >/dev/null
	@ansible-galaxy collection build --force --output-path dist >/dev/null
	@ls -l dist

.PHONY: clean
clean: ## take the lab down and remove what was built here, .venv included
	@if [ -x .venv/bin/python ] && [ "$$(id -u)" = 0 ]; then python -m lab down; fi
	rm -rf .venv .venv.lock .cache .ansible .hypothesis dist tests/output
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
