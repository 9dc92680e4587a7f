# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the API: what they may be, and that the secret is shown nowhere."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.trainops.proxmox.plugins.doc_fragments.api import ModuleDocFragment
from ansible_collections.trainops.proxmox.plugins.module_utils.api import (
    API_ARGUMENT_SPEC,
    ApiOptions,
    ApiUsage,
    options_from,
)

SECRET = "5f0f6b6e-1c1d-4b0a-9f3e-0123456789ab"
GIVEN = {"api_host": "10.1.2.6", "api_user": "a@pve", "api_token_id": "tt", "api_token_secret": SECRET}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, {"host": "10.1.2.6", "port": 8006, "user": "a@pve", "token_id": "tt", "timeout": 35.0}),
        ({"api_host": "pve1.example.com"}, {"host": "pve1.example.com"}),
        ({"api_host": "[fd00::1]"}, {"host": "fd00::1"}),
        ({"api_host": " pve1 "}, {"host": "pve1"}),
        ({"api_port": 443}, {"port": 443}),
        ({"api_token_id": "a@pve!tt"}, {"user": "a@pve", "token_id": "tt"}),
        ({"api_token_id": "b@corp.example!tt", "api_user": None}, {"user": "b@corp.example", "token_id": "tt"}),
        ({"api_user": "me@corp.example@ad"}, {"user": "me@corp.example@ad"}),
        ({"api_token_secret": f"{SECRET}\n"}, {"token_secret": SECRET}),
        ({"api_fingerprint": "AB:" * 31 + "AB"}, {"fingerprint": "ab" * 32}),
        ({"api_fingerprint": "SHA256:" + "ab" * 32}, {"fingerprint": "ab" * 32}),
        ({"api_fingerprint": "", "ca_path": ""}, {"fingerprint": None, "ca_path": None}),
        ({"api_timeout": 1.5}, {"timeout": 1.5}),
    ],
)
def test_options_are_taken(changed: dict[str, Any], expected: dict[str, Any]) -> None:
    options = options_from({**GIVEN, **changed})
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"api_host": None},
            "without api_host (variable proxmox_api_host): set it, or PROXMOX_HOST in the environment",
        ),
        (
            {"api_token_id": "", "api_token_secret": None},
            "api_token_secret (variable proxmox_api_token_secret): set them, or PROXMOX_TOKEN_ID, PROXMOX_TOKEN_SECRET",
        ),
        ({"api_user": None}, "without api_user"),
        ({"api_host": "https://10.1.2.6:8006"}, "api_host (variable proxmox_api_host) is 'https://10.1.2.6:8006'"),
        ({"api_host": "10.1.2.6:8006"}, "a port goes into api_port"),
        ({"api_host": "a b"}, "is 'a b'"),
        ({"api_host": "x" * 64}, "must be a name or an address alone"),
        ({"api_port": 0}, "is 0, it must be from 1 to 65535"),
        ({"api_port": 65536}, "is 65536"),
        ({"api_user": "root"}, "is 'root', it must have its realm"),
        ({"api_token_id": "c@pve!tt"}, "is a token of c@pve, and api_user"),
        ({"api_token_id": "no spaces"}, "is 'no spaces', it must be a token's name"),
        ({"api_token_secret": f"{SECRET} {SECRET}"}, "has spaces, line breaks or other characters"),
        ({"api_token_secret": f"{SECRET}\u20ac"}, "has spaces, line breaks or other characters"),
        ({"api_fingerprint": "ab" * 20}, "must be a SHA-256 fingerprint: 64 hexadecimal digits"),
        ({"api_timeout": 0}, "must be more than 0"),
        ({"api_timeout": float("nan")}, "must be more than 0"),
    ],
)
def test_what_cannot_be_is_one_sentence(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ApiUsage) as caught:
        options_from({**GIVEN, **changed})
    assert said in caught.value.message
    assert SECRET not in caught.value.message


def test_the_secret_is_in_no_repr() -> None:
    options = options_from(GIVEN)
    assert isinstance(options, ApiOptions)
    assert SECRET not in f"{options!r} {options} {options.server!r}"
    assert options.server.address == "10.1.2.6:8006"
    assert options_from({**GIVEN, "api_host": "fd00::1"}).server.address == "[fd00::1]:8006"


def test_the_docs_tell_of_the_same_options() -> None:
    told = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]
    assert set(told) == set(API_ARGUMENT_SPEC)
    for name, option in told.items():
        spec = API_ARGUMENT_SPEC[name]
        assert (option["type"], option.get("default")) == (spec["type"], spec.get("default")), name
        for variable in spec.get("fallback", (None, []))[1]:
            assert f"E({variable})" in str(option["description"]), name
    assert API_ARGUMENT_SPEC["api_token_secret"]["no_log"] is True
