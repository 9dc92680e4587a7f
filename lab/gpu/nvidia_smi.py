#!/usr/bin/python3 -IS
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A stand-in for nvidia-smi whose numbers follow real processes.

It is installed as /usr/bin/nvidia-smi on the nodes and in the containers of the lab: one file, standard library only,
Python 3.9 and newer. Texts, field names, units and exit codes are those of driver 580.159.04 on an NVIDIA H200.

A process holds N MiB of a GPU by a POSIX write lock on N bytes of /dev/nvidia<minor>, which node and containers share
by bind mounts (see hold.py). The kernel does the rest: F_GETLK names the holder in the PID namespace of the caller and
0 for a process of another container, so that process counts in the memory and is not listed; a lock ends with its
process.

Files and environment
- /etc/trainops-lab/gpus.json, or TRAINOPS_LAB_GPUS: a list of objects with index, uuid, name, memory_total_mib, bus_id
  and minor; optional serial, driver_version, baseline_mib (memory in use without any process) and values (see below).
- /dev, or TRAINOPS_LAB_DEV: where nvidia<minor> lies. A GPU without its device file is not there.
- nvidia-smi.faults.json beside the table: an object, or a list of them, each a fault to show.
    match: only for a command line that contains this text      delay: seconds before the answer
    hang: true waits for ever; "hard" ignores SIGTERM as well    drop_field: a field or XML element this driver lacks
    values: {field or XML element: text} shown instead           truncate: bytes of the answer that still arrive
    exit, stdout, stderr: this instead of an answer
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, NoReturn

DRIVER = "580.159.04"
CUDA = "13.0"
FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid

# name|alias [unit] = value, in the order of --help-query-gpu; {…} is filled in from values_of()
FIELDS = """\
timestamp = {now}
driver_version = {driver}
vgpu_driver_capability.heterogenous_multivGPU = [N/A]
count = {count}
name|gpu_name = {name}
serial|gpu_serial = {serial}
uuid|gpu_uuid = {uuid}
pci.bus_id|gpu_bus_id = {bus_id}
pci.domain = 0x{domain}
pci.bus = 0x{bus}
pci.device = 0x{device}
pci.baseClass = 0x3
pci.subClass = 0x2
pci.device_id = 0x233510DE
pci.sub_device_id = 0x18BF10DE
vgpu_device_capability.fractional_multiVgpu = [N/A]
vgpu_device_capability.heterogeneous_timeSlice_profile = [N/A]
vgpu_device_capability.heterogeneous_timeSlice_sizes = [N/A]
vgpu_device_capability.homogeneous_placements = [N/A]
vgpu_device_capability.mig_timeSlicing = [N/A]
vgpu_device_capability.mig_timeSlicing_mode = [N/A]
pcie.link.gen.current = 5
pcie.link.gen.gpucurrent = 5
pcie.link.gen.max = 5
pcie.link.gen.gpumax = 5
pcie.link.gen.hostmax = [N/A]
pcie.link.width.current = 16
pcie.link.width.max = 16
index = {index}
display_mode = [Requested functionality has been deprecated]
display_attached = Yes
display_active = Disabled
persistence_mode = Enabled
addressing_mode = None
accounting.mode = Disabled
accounting.buffer_size = 4000
driver_model.current = [N/A]
driver_model.pending = [N/A]
vbios_version = 96.00.A5.00.1A
inforom.img|inforom.image = G520.0282.02.02
inforom.oem = 2.1
inforom.ecc = 7.16
inforom.pwr|inforom.power = [N/A]
inforom.checksum_validation = valid
gpu_recovery_action = None
gom.current|gpu_operation_mode.current = [N/A]
gom.pending|gpu_operation_mode.pending = [N/A]
fan.speed [%] = [N/A]
pstate = P0
clocks_event_reasons.supported|clocks_throttle_reasons.supported = 0x00000000000001FF
clocks_event_reasons.active|clocks_throttle_reasons.active = 0x000000000000000{idle_bit}
clocks_event_reasons.gpu_idle|clocks_throttle_reasons.gpu_idle = {idle_reason}
clocks_event_reasons.applications_clocks_setting|clocks_throttle_reasons.applications_clocks_setting = Not Active
clocks_event_reasons.sw_power_cap|clocks_throttle_reasons.sw_power_cap = Not Active
clocks_event_reasons.hw_slowdown|clocks_throttle_reasons.hw_slowdown = Not Active
clocks_event_reasons.hw_thermal_slowdown|clocks_throttle_reasons.hw_thermal_slowdown = Not Active
clocks_event_reasons.hw_power_brake_slowdown|clocks_throttle_reasons.hw_power_brake_slowdown = Not Active
clocks_event_reasons.sw_thermal_slowdown|clocks_throttle_reasons.sw_thermal_slowdown = Not Active
clocks_event_reasons.sync_boost|clocks_throttle_reasons.sync_boost = Not Active
clocks_event_reasons_counters.sw_power_cap [us] = 0
clocks_event_reasons_counters.sync_boost [us] = 0
clocks_event_reasons_counters.sw_thermal_slowdown [us] = 0
clocks_event_reasons_counters.hw_thermal_slowdown [us] = 0
clocks_event_reasons_counters.hw_power_brake_slowdown [us] = 0
memory.total [MiB] = {total}
memory.reserved [MiB] = {reserved}
memory.used [MiB] = {used}
memory.free [MiB] = {free}
compute_mode = Default
compute_cap = 9.0
utilization.gpu [%] = {util}
utilization.memory [%] = {memory_util}
utilization.encoder [%] = 0
utilization.decoder [%] = 0
utilization.jpeg [%] = 0
utilization.ofa [%] = 0
encoder.stats.sessionCount = 0
encoder.stats.averageFps = 0
encoder.stats.averageLatency = 0
dramEncryption.mode.current = [N/A]
dramEncryption.mode.pending = [N/A]
ecc.mode.current = Enabled
ecc.mode.pending = Enabled
ecc.errors.corrected.volatile.device_memory = 0
ecc.errors.corrected.volatile.dram = 0
ecc.errors.corrected.volatile.register_file = [N/A]
ecc.errors.corrected.volatile.l1_cache = [N/A]
ecc.errors.corrected.volatile.l2_cache = [N/A]
ecc.errors.corrected.volatile.texture_memory = [N/A]
ecc.errors.corrected.volatile.cbu = [N/A]
ecc.errors.corrected.volatile.sram = 0
ecc.errors.corrected.volatile.total = 0
ecc.errors.corrected.aggregate.device_memory = 0
ecc.errors.corrected.aggregate.dram = 0
ecc.errors.corrected.aggregate.register_file = [N/A]
ecc.errors.corrected.aggregate.l1_cache = [N/A]
ecc.errors.corrected.aggregate.l2_cache = [N/A]
ecc.errors.corrected.aggregate.texture_memory = [N/A]
ecc.errors.corrected.aggregate.cbu = [N/A]
ecc.errors.corrected.aggregate.sram = 0
ecc.errors.corrected.aggregate.total = 0
ecc.errors.uncorrected.volatile.device_memory = 0
ecc.errors.uncorrected.volatile.dram = 0
ecc.errors.uncorrected.volatile.register_file = [N/A]
ecc.errors.uncorrected.volatile.l1_cache = [N/A]
ecc.errors.uncorrected.volatile.l2_cache = [N/A]
ecc.errors.uncorrected.volatile.texture_memory = [N/A]
ecc.errors.uncorrected.volatile.cbu = [N/A]
ecc.errors.uncorrected.volatile.sram = 0
ecc.errors.uncorrected.volatile.total = 0
ecc.errors.uncorrected.aggregate.device_memory = 0
ecc.errors.uncorrected.aggregate.dram = 0
ecc.errors.uncorrected.aggregate.register_file = [N/A]
ecc.errors.uncorrected.aggregate.l1_cache = [N/A]
ecc.errors.uncorrected.aggregate.l2_cache = [N/A]
ecc.errors.uncorrected.aggregate.texture_memory = [N/A]
ecc.errors.uncorrected.aggregate.cbu = [N/A]
ecc.errors.uncorrected.aggregate.sram = 0
ecc.errors.uncorrected.aggregate.total = 0
ecc.errors.uncorrected.volatile.sram.parity = 0
ecc.errors.uncorrected.volatile.sram.secded = 0
ecc.errors.uncorrected.aggregate.sram.parity = 0
ecc.errors.uncorrected.aggregate.sram.secded = 0
ecc.errors.uncorrected.aggregate.sram.thresholdExceeded = No
ecc.errors.uncorrected.aggregate.sram.l2 = 0
ecc.errors.uncorrected.aggregate.sram.sm = 0
ecc.errors.uncorrected.aggregate.sram.mcu = 0
ecc.errors.uncorrected.aggregate.sram.pcie = 0
ecc.errors.uncorrected.aggregate.sram.other = 0
retired_pages.single_bit_ecc.count|retired_pages.sbe = [N/A]
retired_pages.double_bit.count|retired_pages.dbe = [N/A]
retired_pages.pending = [N/A]
remapped_rows.correctable|remapped_rows.sbe = 0
remapped_rows.correctable_inactive = 0
remapped_rows.uncorrectable|remapped_rows.dbe = 0
remapped_rows.uncorrectable_inactive = 0
remapped_rows.pending = No
remapped_rows.failure = No
remapped_rows.histogram.max = 3072
remapped_rows.histogram.high = 0
remapped_rows.histogram.partial = 0
remapped_rows.histogram.low = 0
remapped_rows.histogram.none = 0
temperature.gpu = {temp}
temperature.gpu.tlimit = {tlimit}
temperature.memory = {memory_temp}
power.management = Enabled
power.draw [W] = {power}
power.draw.average|gpu.power.draw.average [W] = {power}
power.draw.instant|gpu.power.draw.instant [W] = {power_now}
power.limit|gpu.power.requested_limit [W] = 700.00
enforced.power.limit|gpu.power.current_limit [W] = 700.00
power.default_limit|gpu.power.default_limit [W] = 700.00
power.min_limit|gpu.power.min_limit [W] = 200.00
power.max_limit|gpu.power.max_limit [W] = 700.00
module.power.draw.average [W] = [N/A]
module.power.draw.instant [W] = [N/A]
module.power.limit|module.power.requested_limit [W] = [N/A]
module.enforced.power.limit|module.power.current_limit [W] = [N/A]
module.power.default_limit [W] = [N/A]
module.power.min_limit [W] = [N/A]
module.power.max_limit [W] = [N/A]
power_smoothing.delayed_power_smoothing_supported = [N/A]
power_smoothing.primary_power_floor [W] = [N/A]
power_smoothing.secondary_power_floor [W] = [N/A]
power_smoothing.min_primary_floor_activation_offset [W] = [N/A]
power_smoothing.min_primary_floor_activation_point [W] = [N/A]
power_smoothing.window_multiplier [ms] = [N/A]
power_smoothing.curr_profile.secondary_power_floor [W] = [N/A]
power_smoothing.curr_profile.primary_floor_act_window_multiplier = [N/A]
power_smoothing.curr_profile.primary_floor_tar_window_multiplier = [N/A]
power_smoothing.curr_profile.primary_floor_act_offset [W] = [N/A]
power_smoothing.admin_override.secondary_power_floor [W] = [N/A]
power_smoothing.admin_override.primary_floor_act_window_multiplier = [N/A]
power_smoothing.admin_override.primary_floor_tar_window_multiplier = [N/A]
power_smoothing.admin_override.primary_floor_act_offset [W] = [N/A]
clocks.current.graphics|clocks.gr [MHz] = {clock}
clocks.current.sm|clocks.sm [MHz] = {clock}
clocks.current.memory|clocks.mem [MHz] = 3201
clocks.current.video|clocks.video [MHz] = {video_clock}
clocks.applications.graphics|clocks.applications.gr [MHz] = 1980
clocks.applications.memory|clocks.applications.mem [MHz] = 3201
clocks.default_applications.graphics|clocks.default_applications.gr [MHz] = 1980
clocks.default_applications.memory|clocks.default_applications.mem [MHz] = 3201
clocks.max.graphics|clocks.max.gr [MHz] = 1980
clocks.max.sm|clocks.max.sm [MHz] = 1980
clocks.max.memory|clocks.max.mem [MHz] = 3201
mig.mode.current = Disabled
mig.mode.pending = Disabled
gsp.mode.current = Enabled
gsp.mode.default = Enabled
c2c.mode = Disabled
protected_memory.total [MiB] = 0
protected_memory.used [MiB] = 0
protected_memory.free [MiB] = 0
fabric.state = {fabric_state}
fabric.status = {fabric_status}
fabric.cliqueId = {fabric_clique}
fabric.clusterUuid = {fabric_cluster}
fabric.health.summary = N/A
fabric.health.bandwidth = N/A
fabric.health.route_recovery_in_progress = N/A
fabric.health.route_unhealthy = N/A
fabric.health.access_timeout_recovery = N/A
fabric.health.incorrect_configuration = N/A
fabric.health.partition_assigned = N/A
platform.chassis_serial_number =
platform.slot_number = 0
platform.tray_index = 0
platform.host_id = 1
platform.peer_type = Direct Connected
platform.module_id = {module}
platform.gpu_fabric_guid = 0x0000000000000000
hostname = [N/A]
"""

APP_FIELDS = """\
timestamp = {now}
gpu_name = {name}
gpu_bus_id = {bus_id}
gpu_serial = {serial}
gpu_uuid = {uuid}
pid = {pid}
process_name|name = {process}
used_gpu_memory|used_memory [MiB] = {process_memory}
"""

# <gpu> of nvidia-smi -q -x: one element a line, a space deeper for each level, then its text; @ is a block made by code
XML = """\
product_name {name}
product_brand NVIDIA
product_architecture Hopper
display_mode Requested functionality has been deprecated
display_attached Yes
display_active Disabled
persistence_mode Enabled
addressing_mode None
mig_mode
 current_mig Disabled
 pending_mig Disabled
mig_devices @none
accounting_mode Disabled
accounting_mode_buffer_size 4000
driver_model
 current_dm N/A
 pending_dm N/A
serial {serial}
uuid {uuid}
pdi {pdi}
minor_number {minor}
vbios_version 96.00.A5.00.1A
multigpu_board No
board_id {board}
board_part_number 000-00000-0000-000
gpu_part_number 2335-895-A1
gpu_fru_part_number N/A
platformInfo
 chassis_serial_number N/A
 slot_number N/A
 tray_index N/A
 host_id N/A
 peer_type N/A
 module_id {module}
 gpu_fabric_guid N/A
inforom_version
 img_version G520.0282.02.02
 oem_object 2.1
 ecc_object 7.16
 pwr_object N/A
inforom_bbx_flush
 latest_timestamp N/A
 latest_duration N/A
gpu_operation_mode
 current_gom N/A
 pending_gom N/A
c2c_mode Disabled
gpu_virtualization_mode
 virtualization_mode Pass-Through
 host_vgpu_mode N/A
 vgpu_heterogeneous_mode N/A
gpu_recovery_action None
gsp_firmware_version {driver}
ibmnpu
 relaxed_ordering_mode N/A
pci
 pci_bus {bus}
 pci_device {device}
 pci_domain {domain}
 pci_base_class 3
 pci_sub_class 2
 pci_device_id 233510DE
 pci_bus_id {bus_id}
 pci_sub_system_id 18BF10DE
 pci_gpu_link_info
  pcie_gen
   max_link_gen 5
   current_link_gen 5
   device_current_link_gen 5
   max_device_link_gen 5
   max_host_link_gen N/A
  link_widths
   max_link_width 16x
   current_link_width 16x
 pci_bridge_chip
  bridge_chip_type N/A
  bridge_chip_fw N/A
 replay_counter 1
 replay_rollover_counter 0
 tx_util 2001 KB/s
 rx_util 575 KB/s
 atomic_caps_outbound N/A
 atomic_caps_inbound N/A
fan_speed N/A
performance_state P0
clocks_event_reasons
 clocks_event_reason_gpu_idle {idle_reason}
 clocks_event_reason_applications_clocks_setting Not Active
 clocks_event_reason_sw_power_cap Not Active
 clocks_event_reason_hw_slowdown Not Active
 clocks_event_reason_hw_thermal_slowdown Not Active
 clocks_event_reason_hw_power_brake_slowdown Not Active
 clocks_event_reason_sync_boost Not Active
 clocks_event_reason_sw_thermal_slowdown Not Active
 clocks_event_reason_display_clocks_setting Not Active
clocks_event_reasons_counters
 clocks_event_reasons_counters_sw_power_cap 0 us
 clocks_event_reasons_counters_sync_boost 0 us
 clocks_event_reasons_counters_sw_therm_slowdown 0 us
 clocks_event_reasons_counters_hw_therm_slowdown 0 us
 clocks_event_reasons_counters_hw_power_brake 0 us
sparse_operation_mode Disabled
fb_memory_usage
 total {total} MiB
 reserved {reserved} MiB
 used {used} MiB
 free {free} MiB
bar1_memory_usage
 total 262144 MiB
 used {bar1_used} MiB
 free {bar1_free} MiB
cc_protected_memory_usage
 total 0 MiB
 used 0 MiB
 free 0 MiB
compute_mode Default
utilization
 gpu_util {util} %
 memory_util {memory_util} %
 encoder_util 0 %
 decoder_util 0 %
 jpeg_util 0 %
 ofa_util 0 %
encoder_stats
 session_count 0
 average_fps 0
 average_latency 0
fbc_stats
 session_count 0
 average_fps 0
 average_latency 0
dram_encryption_mode
 current_dram_encryption N/A
 pending_dram_encryption N/A
ecc_mode
 current_ecc Enabled
 pending_ecc Enabled
ecc_errors
 volatile
  sram_correctable 0
  sram_uncorrectable_parity 0
  sram_uncorrectable_secded 0
  dram_correctable 0
  dram_uncorrectable 0
 aggregate
  sram_correctable 0
  sram_uncorrectable_parity 0
  sram_uncorrectable_secded 0
  dram_correctable 0
  dram_uncorrectable 0
  sram_threshold_exceeded No
 aggregate_uncorrectable_sram_sources
  sram_l2 0
  sram_sm 0
  sram_microcontroller 0
  sram_pcie 0
  sram_other 0
 channel_repair_pending No
 tpc_repair_pending No
 unrepairable_memory No
retired_pages
 multiple_single_bit_retirement
  retired_count N/A
  retired_pagelist N/A
 double_bit_retirement
  retired_count N/A
  retired_pagelist N/A
 pending_blacklist N/A
 pending_retirement N/A
remapped_rows
 remapped_row_corr 0
 remapped_row_corr_inactive 0
 remapped_row_unc 0
 remapped_row_unc_inactive 0
 remapped_row_pending No
 remapped_row_failure No
 row_remapper_histogram
  row_remapper_histogram_max 3072 bank(s)
  row_remapper_histogram_high 0 bank(s)
  row_remapper_histogram_partial 0 bank(s)
  row_remapper_histogram_low 0 bank(s)
  row_remapper_histogram_none 0 bank(s)
temperature
 gpu_temp {temp} C
 gpu_temp_tlimit {tlimit} C
 gpu_temp_max_tlimit_threshold -8 C
 gpu_temp_slow_tlimit_threshold -2 C
 gpu_temp_max_gpu_tlimit_threshold 0 C
 gpu_target_temperature N/A
 memory_temp {memory_temp} C
 gpu_temp_max_mem_tlimit_threshold 0 C
supported_gpu_target_temp
 gpu_target_temp_min N/A
 gpu_target_temp_max N/A
gpu_power_readings
 power_state P0
 average_power_draw {power} W
 instant_power_draw {power_now} W
 current_power_limit 700.00 W
 requested_power_limit 700.00 W
 default_power_limit 700.00 W
 min_power_limit 200.00 W
 max_power_limit 700.00 W
gpu_memory_power_readings
 average_power_draw 41.19 W
 instant_power_draw N/A
module_power_readings
 power_state P0
 average_power_draw N/A
 instant_power_draw N/A
 current_power_limit N/A
 requested_power_limit N/A
 default_power_limit N/A
 min_power_limit N/A
 max_power_limit N/A
power_smoothing N/A
power_profiles
 power_profile_requested_profiles N/A
 power_profile_enforced_profiles N/A
clocks
 graphics_clock {clock} MHz
 sm_clock {clock} MHz
 mem_clock 3201 MHz
 video_clock {video_clock} MHz
applications_clocks
 graphics_clock 1980 MHz
 mem_clock 3201 MHz
default_applications_clocks
 graphics_clock 1980 MHz
 mem_clock 3201 MHz
deferred_clocks
 mem_clock N/A
max_clocks
 graphics_clock 1980 MHz
 sm_clock 1980 MHz
 mem_clock 3201 MHz
 video_clock 1545 MHz
max_customer_boost_clocks
 graphics_clock 1980 MHz
clock_policy
 auto_boost N/A
 auto_boost_default N/A
fabric
 state {fabric_state}
 status {fabric_status}
 cliqueId {fabric_clique}
 clusterUuid {fabric_cluster}
 health
  summary N/A
  bandwidth N/A
  route_recovery_in_progress N/A
  route_unhealthy N/A
  access_timeout_recovery N/A
  incorrect_configuration N/A
  partition_assigned N/A
supported_clocks @clocks
processes @processes
accounted_processes
capabilities
 egm disabled
"""

TABLE_HEAD = f"""\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI {DRIVER:<22} Driver Version: {DRIVER:<14} CUDA Version: {CUDA:<8} |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
TABLE_GPU = """\
| {index:>3}  {name:<30.30} {persistence:<4}|   {bus_id} Off |                    0 |
| N/A {temp:>4}C    P0{watts:>15}W /  700W | {used:>7}MiB / {total:>6}MiB | {util:>6}%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""
TABLE_PROCESSES = """\

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
"""
TABLE_NO_PROCESS = "|  No running processes found                                                             |\n"
TABLE_PROCESS = "| {index:>4}   N/A  N/A {pid:>15}      C   {short:<35}{process_memory:>8}MiB |\n"
TABLE_END = "+-----------------------------------------------------------------------------------------+\n"

# the sections of nvidia-smi -q that -d can name here, and the lines of each
SECTIONS = {
    "MEMORY": """\
    FB Memory Usage
        Total                                          : {total} MiB
        Reserved                                       : {reserved} MiB
        Used                                           : {used} MiB
        Free                                           : {free} MiB
    BAR1 Memory Usage
        Total                                          : 262144 MiB
        Used                                           : {bar1_used} MiB
        Free                                           : {bar1_free} MiB
    Conf Compute Protected Memory Usage
        Total                                          : 0 MiB
        Used                                           : 0 MiB
        Free                                           : 0 MiB
""",
    "PIDS": "",
}
SECTION_PROCESS = """\
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : {pid}
            Type                          : C
            Name                          : {process}
            Used GPU Memory               : {process_memory} MiB
"""

HELP = """\
NVIDIA System Management Interface -- v{driver}

A stand-in: it answers

    nvidia-smi                                          a table of GPUs and processes
    nvidia-smi -L | --list-gpus                         the GPUs, one a line
    nvidia-smi -q -x [-i ID,…] [-f FILE]                everything, as XML
    nvidia-smi -q -d MEMORY,PIDS [-i ID,…] [-f FILE]    sections, as text
    nvidia-smi --query-gpu=FIELD,… [--format=csv[,noheader][,nounits]] [-i ID,…] [-f FILE] [-l SEC]
    nvidia-smi --query-compute-apps=FIELD,… [the same]
    nvidia-smi --help-query-gpu | --help-query-compute-apps | --version

ID is an index, a UUID or a PCI bus id.
"""

LONG = {
    "--list-gpus": "-L",
    "--query": "-q",
    "--xml-format": "-x",
    "--display": "-d",
    "--id": "-i",
    "--filename": "-f",
    "--loop": "-l",
    "--help": "-h",
}
FLAGS = ("-L", "-q", "-x", "-h", "--version", "--help-query-gpu", "--help-query-compute-apps")
WITH_VALUE = ("-d", "-i", "-f", "-l", "--query-gpu", "--query-compute-apps", "--format")
FOR_HELP = "Please run 'nvidia-smi -h' for help."


class Answer(Exception):
    """The end of a run: what nvidia-smi prints (all of it goes to stdout, errors too) and its exit status."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def fields_of(table: str) -> dict[str, tuple[str, str, str]]:
    """Every name and alias of a field table as (name in the header, unit or "", template of the value)."""
    fields = {}
    for line in table.splitlines():
        names, _, template = line.partition(" =")
        names, _, unit = names.partition(" [")
        header = names.split("|")[0]
        for name in names.split("|"):
            fields[name] = (header, unit.rstrip("]"), template[1:])
    return fields


# --- the command line ---------------------------------------------------------------------------------------------


def parse(argv: list[str]) -> dict[str, tuple[str, str]]:
    """Options by their short name, each as (the argument as it was written, its value)."""
    options: dict[str, tuple[str, str]] = {}
    rest = list(argv)
    while rest:
        written = rest.pop(0)
        name, equals, value = written.partition("=")
        name = LONG.get(name, name)
        if name not in WITH_VALUE and (name not in FLAGS or equals):
            raise unrecognized(written, within_query=any(other.startswith("--query-") for other in argv))
        if name in WITH_VALUE and not equals:
            if rest:
                value = rest.pop(0)
            elif name != "--format":  # the real one takes a bare --format for csv
                raise Answer(255, f"ERROR: Option {written} is missing its value. {FOR_HELP}\n\n")
        options[name] = (written, value)
    check_combination(options)
    return options


def unrecognized(written: str, within_query: bool) -> Answer:
    """The real one has a parser of its own for the --query- switches, which words this differently."""
    if within_query:
        return Answer(2, f"ERROR: Option {written} is not recognized. {FOR_HELP}\n\n")
    return Answer(255, f"ERROR: Option {written} is not recognized. Please run 'nvidia-smi -h'.\n\n")


def check_combination(options: dict[str, tuple[str, str]]) -> None:
    """Refuse what the real one refuses, in its order."""
    queries = [name for name in options if name.startswith("--query-")]
    if "-h" in options:
        return
    if "-L" in options and len(options) > 1:
        other = next(written for name, (written, _) in options.items() if name != "-L")
        raise Answer(2, f"ERROR: Option {other} is not valid for this command. {FOR_HELP}\n\n")
    if len(queries) > 1:
        raise Answer(2, "Only one --query-* switch can be used at a time.\n")
    if queries:
        for name, (written, _) in options.items():
            if name in ("-q", "-x", "-d"):
                raise unrecognized(written, within_query=True)
    elif "--format" in options:
        raise unrecognized(options["--format"][0], within_query=False)
    combination = "Invalid combination of input arguments"
    if "-x" in options and "-d" in options:
        flags = "--display/-d flags can not be combined with -x/--xml-format flags"
        raise Answer(2, f"{combination}: {flags}.\n")
    if "-x" in options and "-q" not in options:
        flags = "Specify -q/--query and -x/--xml-format to run an XML query. "
        raise Answer(2, f"{combination}. {flags} {FOR_HELP}\n\n")
    if "-d" in options and "-q" not in options:
        flags = "Specify -q/--query and -d/--display to run a filtered query. "
        raise Answer(2, f"{combination}. {flags} {FOR_HELP}\n\n")


def loop_seconds(options: dict[str, tuple[str, str]]) -> float | None:
    if "-l" not in options:
        return None
    try:
        seconds = float(options["-l"][1])
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        wrong = "Provided [-l(ms) | --loop(-ms)=] value is incorrect. Loop frequency must be greater than 0."
        raise Answer(2, f"{wrong}\n\n")
    return seconds


# --- the GPUs and who holds them ----------------------------------------------------------------------------------


def read_gpus(table: str, dev: str) -> list[dict[str, Any]]:
    """The GPUs of the table whose device file is here."""
    try:
        with open(table, encoding="utf-8") as stream:
            gpus: list[dict[str, Any]] = json.load(stream)
    except FileNotFoundError:
        failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        raise Answer(9, failed + "Make sure that the latest NVIDIA driver is installed and running.\n\n") from None
    return [gpu for gpu in gpus if os.path.exists(device_path(dev, gpu))]


def device_path(dev: str, gpu: dict[str, Any]) -> str:
    return os.path.join(dev, f"nvidia{gpu['minor']}")


def open_devices(table: str, dev: str) -> None:
    """Open every device file for the rest of the run, as each user of NVML does; only a CUDA process also maps them."""
    with contextlib.suppress(Answer):
        names = [os.path.basename(device_path(dev, gpu)) for gpu in read_gpus(table, dev)]
        for name in ("nvidiactl", "nvidia-uvm", *names):
            with contextlib.suppress(OSError):
                os.open(os.path.join(dev, name), os.O_RDWR | os.O_CLOEXEC)


def select(gpus: list[dict[str, Any]], options: dict[str, tuple[str, str]]) -> list[dict[str, Any]]:
    """The GPUs that -i names, in the order of their index; names that fit none are passed over while one fits."""
    chosen = gpus
    if "-i" in options:
        wanted = options["-i"][1].split(",")
        if wanted == [""]:
            raise Answer(255, "Failed to parse device string on command line")
        chosen = [gpu for gpu in gpus if {str(gpu["index"]), gpu["uuid"], gpu["bus_id"]} & set(wanted)]
    if not chosen:
        raise Answer(6, "No devices were found\n")
    return chosen


def held_ranges(path: str) -> Iterator[tuple[int, int]]:
    """(PID, MiB) of each locked range. A query names any lock in its range, so look on both sides of each one found."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        open_ranges = [(0, 0)]  # start and length; length 0 reaches to the end of all files
        while open_ranges:
            start, length = open_ranges.pop()
            query = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
            kind, _, at, size, pid = struct.unpack(FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
            if kind == fcntl.F_UNLCK:
                continue
            yield max(pid, 0), size
            if at > start:
                open_ranges.append((start, at - start))
            end = start + length
            if size and (not length or at + size < end):
                open_ranges.append((at + size, end - (at + size) if length else 0))
    finally:
        os.close(descriptor)


def holders_of(path: str) -> tuple[int, dict[int, int]]:
    """Memory in use in MiB, and the MiB of each process that is visible here."""
    used = 0
    processes: dict[int, int] = {}
    for pid, mib in held_ranges(path):
        used += mib
        if pid:  # 0: a process of another PID namespace
            processes[pid] = processes.get(pid, 0) + mib
    return used, dict(sorted(processes.items()))


def process_name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return stream.read().split(b"\0")[0].decode(errors="replace") or "[Not Found]"
    except OSError:
        return "[Not Found]"


def values_of(gpu: dict[str, Any], count: int, dev: str) -> dict[str, Any]:
    """All that the templates can ask for about one GPU. An unused GPU reads as in the recording of an idle one."""
    locked, processes = holders_of(device_path(dev, gpu))
    used = locked + int(gpu.get("baseline_mib", 0))
    total = int(gpu["memory_total_mib"])
    domain, bus, device = gpu["bus_id"].split(".")[0].split(":")
    busy = locked > 0
    linked = count > 1  # NVLink
    now = time.time()
    rows = []
    for pid, mib in processes.items():
        name = process_name(pid)
        short = name if len(name) <= 34 else f"...{name[-31:]}"
        rows.append({"pid": pid, "process": name, "short": short, "process_memory": mib})
    return {
        "now": time.strftime("%Y/%m/%d %H:%M:%S.", time.localtime(now)) + f"{int(now * 1000) % 1000:03d}",
        "driver": gpu.get("driver_version", DRIVER),
        "count": count,
        "name": gpu["name"],
        "serial": gpu.get("serial", f"{1650000000000 + int(gpu['minor'])}"),
        "uuid": gpu["uuid"],
        "bus_id": gpu["bus_id"],
        "domain": domain[-4:],
        "bus": bus,
        "device": device,
        "index": gpu["index"],
        "minor": gpu["minor"],
        "pdi": gpu.get("pdi", f"0x{0x0123456789ABCDEF + int(gpu['minor']):016x}"),
        "board": hex(int(bus, 16) * 256 + int(device, 16)),
        "module": int(gpu["minor"]) + 1,
        "idle_bit": 0 if busy else 1,
        "idle_reason": "Not Active" if busy else "Active",
        "total": total,
        "reserved": 616,
        "used": used,
        "free": total - 615 - used + (1 if used > locked else 0),  # the real one rounds each figure up by itself
        "bar1_used": used + 1,
        "bar1_free": 262143 - used,
        "util": 0,
        "memory_util": 0,
        "temp": 35 if busy else 34,
        "tlimit": 52 if busy else 53,
        "memory_temp": 35 if busy else 33,
        "power": "119.42" if busy else "79.28",
        "power_now": "119.29" if busy else "79.81",
        "watts": 119 if busy else 79,
        "clock": 1980 if busy else 345,
        "video_clock": 1545 if busy else 765,
        "persistence": "On",
        "fabric_state": "Completed" if linked else "N/A",
        "fabric_status": "Success" if linked else "N/A",
        "fabric_clique": "0" if linked else "N/A",
        "fabric_cluster": "00000000-0000-0000-0000-000000000000" if linked else "N/A",
        "processes": rows,
        "overrides": dict(gpu.get("values", {})),
    }


# --- the answers --------------------------------------------------------------------------------------------------


def csv(table: str, option: str, form: str, gpus: Iterable[dict[str, Any]], lacks: str, header: bool) -> str:
    """The rows of --query-gpu or --query-compute-apps; `header` is False from the second round of a loop on."""
    fields = fields_of(table)
    names = [name for name in option.split(",") if name]
    modifiers = form.split(",") if form else []
    for name in names:
        if name not in fields or lacks in (name, fields[name][0]):
            raise Answer(2, f'Field "{name}" is not a valid field to query.\n\n')
    if set(modifiers) - {"csv", "noheader", "nounits"}:
        raise Answer(2, "Format modifier is not recognized.\n")
    lines = []
    if header and "noheader" not in modifiers:
        titles = [fields[name][:2] for name in names]
        lines.append(", ".join(f"{title} [{unit}]" if unit else title for title, unit in titles))
    for gpu in gpus:
        for row in gpu["processes"] if table is APP_FIELDS else [{}]:
            lines.append(", ".join(cell(fields[name], {**gpu, **row}, "nounits" in modifiers) for name in names))
    return "".join(f"{line}\n" for line in lines)


def cell(field: tuple[str, str, str], values: dict[str, Any], nounits: bool) -> str:
    header, unit, template = field
    text = str(values["overrides"].get(header, template.format_map(values)))
    return f"{text} {unit}" if unit and not nounits and not text.startswith("[") else text


def listing(gpus: list[dict[str, Any]]) -> str:
    return "".join(f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})\n" for gpu in gpus)


def table_of(gpus: list[dict[str, Any]]) -> str:
    text = time.strftime("%a %b %d %H:%M:%S %Y       \n") + TABLE_HEAD
    text += "".join(TABLE_GPU.format_map(gpu) for gpu in gpus) + TABLE_PROCESSES
    rows = [TABLE_PROCESS.format_map({**gpu, **row}) for gpu in gpus for row in gpu["processes"]]
    return text + ("".join(rows) or TABLE_NO_PROCESS) + TABLE_END


def sections_of(gpus: list[dict[str, Any]], wanted: str) -> str:
    """nvidia-smi -q -d …, and a bare -q with every section that the stand-in has."""
    names = wanted.upper().split(",") if wanted else list(SECTIONS)
    if set(names) - set(SECTIONS):
        raise Answer(2, "Failed to parse --display/-d flags\n")
    label = "{:<55}: {}\n".format
    text = "\n==============NVSMI LOG==============\n\n"
    text += label("Timestamp", time.strftime("%a %b %d %H:%M:%S %Y")) + label("Driver Version", gpus[0]["driver"])
    text += label("CUDA Version", CUDA) + "\n" + label("Attached GPUs", gpus[0]["count"])
    for gpu in gpus:
        text += f"GPU {gpu['bus_id']}\n" + "".join(SECTIONS[name].format_map(gpu) for name in SECTIONS if name in names)
        if "PIDS" in names:
            rows = "".join(SECTION_PROCESS.format_map(row) for row in gpu["processes"])
            text += f"    Processes\n{rows}" if rows else label("    Processes", "None")
        text += "\n"
    return text


def xml_of(gpus: list[dict[str, Any]], lacks: str) -> str:
    text = '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
    text += f"\t<timestamp>{time.strftime('%a %b %d %H:%M:%S %Y')}</timestamp>\n"
    text += f"\t<driver_version>{gpus[0]['driver']}</driver_version>\n\t<cuda_version>{CUDA}</cuda_version>\n"
    text += f"\t<attached_gpus>{gpus[0]['count']}</attached_gpus>\n"
    for gpu in gpus:
        text += f'\t<gpu id="{gpu["bus_id"]}">\n' + "".join(gpu_lines(gpu, lacks)) + "\t</gpu>\n\n"
    return text + "</nvidia_smi_log>\n"


def gpu_lines(gpu: dict[str, Any], lacks: str) -> Iterator[str]:
    open_tags: list[str] = []
    left_out = 0  # 1 + the depth of an element that is left out, with all below it
    for line in XML.splitlines():
        depth = len(line) - len(line.lstrip(" "))
        tag, _, template = line.strip().partition(" ")
        while len(open_tags) > depth:
            yield closing(open_tags)
        if left_out and depth >= left_out:
            continue
        left_out = depth + 1 if tag == lacks else 0
        if left_out:
            continue
        tabs = "\t" * (depth + 2)
        if template and template not in BLOCKS:
            text = str(gpu["overrides"].get(tag, template.format_map(gpu)))
            yield f"{tabs}<{tag}>{escape(text)}</{tag}>\n"
            continue
        yield f"{tabs}<{tag}>\n"
        open_tags.append(tag)
        if template:
            yield from BLOCKS[template](gpu, tabs + "\t")
    while open_tags:
        yield closing(open_tags)


def closing(open_tags: list[str]) -> str:
    return "\t" * (len(open_tags) + 1) + f"</{open_tags.pop()}>\n"


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def none_block(gpu: dict[str, Any], tabs: str) -> Iterator[str]:
    yield f"{tabs}None\n"


def clocks_block(gpu: dict[str, Any], tabs: str) -> Iterator[str]:
    for memory_clock in (3201, 2201):
        yield f"{tabs}<supported_mem_clock>\n{tabs}\t<value>{memory_clock} MHz</value>\n"
        for clock in range(1980, 344, -15):
            yield f"{tabs}\t<supported_graphics_clock>{clock} MHz</supported_graphics_clock>\n"
        yield f"{tabs}</supported_mem_clock>\n"


def processes_block(gpu: dict[str, Any], tabs: str) -> Iterator[str]:
    for row in gpu["processes"]:
        memory = f"{row['process_memory']} MiB"
        elements = [("gpu_instance_id", "N/A"), ("compute_instance_id", "N/A"), ("pid", str(row["pid"]))]
        elements += [("type", "C"), ("process_name", row["process"]), ("used_memory", memory)]
        lines = "".join(f"{tabs}\t<{tag}>{escape(text)}</{tag}>\n" for tag, text in elements)
        yield f"{tabs}<process_info>\n{lines}{tabs}</process_info>\n"


BLOCKS = {"@none": none_block, "@clocks": clocks_block, "@processes": processes_block}


def help_fields(switch: str, table: str) -> str:
    text = f'List of valid properties to query for the switch "{switch}":\n\n'
    for line in table.splitlines():
        names = line.partition(" =")[0].partition(" [")[0].split("|")
        text += " or ".join(f'"{name}"' for name in names) + "\n\n"
    return text


# --- faults and the run -------------------------------------------------------------------------------------------


def read_fault(table: str, argv: list[str]) -> dict[str, Any]:
    """The fault switched on for this command line, all that match merged; {} when there is none."""
    path = os.path.join(os.path.dirname(table), "nvidia-smi.faults.json")
    try:
        with open(path, encoding="utf-8") as stream:
            faults = json.load(stream)
    except FileNotFoundError:
        return {}
    merged: dict[str, Any] = {}
    for fault in faults if isinstance(faults, list) else [faults]:
        if fault.get("match", "") in " ".join(argv):
            merged.update(fault)
    return merged


def suffer(fault: dict[str, Any]) -> None:
    """Wait, hang or fail as the fault says."""
    if fault.get("hang") == "hard":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(float(fault.get("delay", 0)))
    while fault.get("hang"):
        signal.pause()
    if "exit" in fault or "stdout" in fault or "stderr" in fault:
        sys.stderr.write(str(fault.get("stderr", "")))
        raise Answer(int(fault.get("exit", 0)), str(fault.get("stdout", "")))


def answer(options: dict[str, tuple[str, str]], table: str, dev: str, fault: dict[str, Any], header: bool) -> str:
    """The whole text of one round."""
    if "-h" in options:
        return HELP.format(driver=DRIVER)
    if "--help-query-gpu" in options:
        return help_fields("--query-gpu", FIELDS)
    if "--help-query-compute-apps" in options:
        return help_fields("--query-compute-apps", APP_FIELDS)
    if "--version" in options:
        name = DRIVER.rsplit(".", 1)[0]
        versions = f"NVIDIA-SMI version  : {DRIVER}\nNVML version        : {name}\nDRIVER version      : {DRIVER}\n"
        return f"{versions}CUDA Version        : {CUDA}\n"
    gpus = read_gpus(table, dev)
    lacks = str(fault.get("drop_field", ""))
    for switch, fields in (("--query-gpu", FIELDS), ("--query-compute-apps", APP_FIELDS)):
        if switch in options:  # an unknown field is reported before an unknown GPU
            csv(fields, options[switch][1], options.get("--format", ("", ""))[1], [], lacks, header)
    chosen = [values_of(gpu, len(gpus), dev) for gpu in select(gpus, options)]
    for gpu in chosen:
        gpu["overrides"].update(fault.get("values", {}))
    for switch, fields in (("--query-gpu", FIELDS), ("--query-compute-apps", APP_FIELDS)):
        if switch in options:
            return csv(fields, options[switch][1], options.get("--format", ("", ""))[1], chosen, lacks, header)
    if "-L" in options:
        return listing(chosen)
    if "-x" in options:
        return xml_of(chosen, lacks)
    return sections_of(chosen, options.get("-d", ("", ""))[1]) if "-q" in options else table_of(chosen)


def write(text: str, options: dict[str, tuple[str, str]], first: bool) -> None:
    if "-f" not in options:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = options["-f"][1]
    try:
        with open(path, "w" if first else "a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError:
        raise Answer(255, f"Failed to create the log file {path}\n") from None


def run(argv: list[str]) -> None:
    """Answer once, or for ever with -l.

    :raises Answer: on every error, with the text and the exit status of the real one.
    """
    table = os.environ.get("TRAINOPS_LAB_GPUS", "/etc/trainops-lab/gpus.json")
    dev = os.environ.get("TRAINOPS_LAB_DEV", "/dev")
    open_devices(table, dev)
    fault = read_fault(table, argv)
    suffer(fault)
    options = parse(argv)
    pause = loop_seconds(options)
    first = True
    while first or pause is not None:
        text = answer(options, table, dev, fault, header=first)
        write(text[: fault.get("truncate", len(text))], options, first)
        first = False
        time.sleep(pause or 0)


def main() -> NoReturn:
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    try:
        run(sys.argv[1:])
    except Answer as end:
        sys.stdout.write(end.text)
        sys.exit(end.status)
    sys.exit(0)


if __name__ == "__main__":
    main()
