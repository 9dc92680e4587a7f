# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A stand-in for Proxmox VE's pct over real LXC: outputs, exit codes and failures as measured on pve-container 6.1.

Standard library only, run by the node's own python3 inside the node's namespaces. dataclasses and typing are left out:
they would cost more than all else that a run of it does once the start-up time is switched off.

main       what happens from the start of the process to its end
commands   what each command does
options    the command line, as Getopt::Long and PVE's argument check read it
transfer   push and pull
tasks      the worker process and the node's task log
locks      the configuration lock of a container
containers configuration files, state and namespaces of containers
locale_    what a Perl program makes of the caller's locale
settings   the lab's switches for tests: start-up time and faults
"""
