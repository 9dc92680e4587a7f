"""The main playbook's head documents every variable of the roles that it runs, with what holds without them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.trainops.proxmox.plugins.doc_fragments.api import ModuleDocFragment
from ansible_collections.trainops.proxmox.plugins.module_utils.api import API_ARGUMENT_SPEC

ROOT = Path(__file__).resolve().parents[3]
LINE = re.compile(r"^#   (?P<name>\w+) +(?:\[(?P<default>.+?)\]|\(set it\)) +\S")
OF_THE_PLAY = {"training_hosts", "proxmox_vmid", "training_launch", "training_history"}
API = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]
QUESTION = yaml.safe_load((ROOT / "playbooks/tasks/state.yml").read_text())[0]


def documented() -> dict[str, str | None]:
    """Name and default of each variable in the playbook's head; None for those that must be set."""
    lines = (ROOT / "playbooks/deploy_training.yml").read_text().splitlines()
    return {found["name"]: found["default"] for line in lines if (found := LINE.match(line))}


def options() -> dict[str, dict[str, Any]]:
    """The options of all roles by name; where two roles share one, that of the first."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            for name, option in entry["options"].items():
                found.setdefault(name, option)
    return found


def of_the_api() -> dict[str, str]:
    """The variable of each of the API's options."""
    return {f"proxmox_api_{option.removeprefix('api_')}": option for option in API}


def test_every_variable_is_there_and_no_other() -> None:
    assert set(documented()) - OF_THE_PLAY - set(of_the_api()) == set(options())
    assert set(documented()) > set(of_the_api())


def test_the_question_sets_every_option_of_the_api_from_its_variable() -> None:
    asked = dict(QUESTION["trainops.proxmox.container_info"])
    asked["ca_path"] = asked["ca_path"].replace("{{ proxmox_ca ", f"{QUESTION['vars']['proxmox_ca']} ", 1)
    for variable, option in of_the_api().items():
        by_name = re.escape(f"lookup('ansible.builtin.vars', '{variable}', default='') ")
        assert re.match(rf"{{{{ ({variable} |{by_name})", asked[option]), option
        assert option == "api_host" or "omit" in asked[option], option


def test_the_apis_defaults_are_those_of_its_options() -> None:
    told = documented()
    for variable, option in of_the_api().items():
        _read, names = API_ARGUMENT_SPEC[option].get("fallback", (None, []))
        default = API[option].get("default")
        if default is not None:
            assert told[variable] == str(default)
        elif told[variable] not in ("none", "the system's CAs"):
            assert told[variable] == f"${names[0]}"


def test_the_defaults_are_those_of_the_roles() -> None:
    told = documented()
    for name, option in options().items():
        default = option.get("default")
        if isinstance(default, bool):
            assert told[name] == str(default).lower(), name
        elif default not in (None, "", [], {}):
            assert told[name] == str(default), name
        assert (told[name] is None) is bool(option.get("required")), name
