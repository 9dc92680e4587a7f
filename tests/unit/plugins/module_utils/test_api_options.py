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
    loose_secrets,
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
        ({"api_port": "443", "api_timeout": "2.5"}, {"port": 443, "timeout": 2.5}),
        ({"api_port": "", "api_timeout": ""}, {"port": 8006, "timeout": 35.0}),
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
        ({"api_port": "x"}, "is no whole number: set it from 1 to 65535"),
        ({"api_port": "80.5"}, "is no whole number"),
        ({"api_port": True}, "is no whole number"),
        ({"api_port": "inf"}, "is no whole number"),
        ({"api_timeout": "x"}, "api_timeout (variable proxmox_api_timeout) is no number"),
        ({"api_timeout": []}, "is no number"),
        ({"api_timeout": 0}, "must be more than 0"),
        ({"api_timeout": float("nan")}, "must be more than 0"),
    ],
)
def test_what_cannot_be_is_one_sentence(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ApiUsage) as caught:
        options_from({**GIVEN, **changed})
    assert said in caught.value.message
    assert SECRET not in caught.value.message


OTHER = "Hunter2Swordfish"
LOOSE: list[tuple[dict[str, Any], str]] = [
    (
        {"api_token_id": f"a@pve!tt={OTHER}"},
        "has its secret behind 'tt': set it to what is before the =, and api_token",
    ),
    ({"api_token_id": f"tt={OTHER}"}, "has its secret behind 'tt'"),
    ({"api_token_id": f"PVEAPIToken=a@pve!tt={OTHER}"}, "is a token of PVEAPIToken=********, and api_user"),
    ({"api_token_id": f"PVEAPIToken=a@pve!tt={OTHER}", "api_user": None}, "api_user (variable proxmox_api_user) is"),
    ({"api_token_id": f"b@pve={OTHER}!tt"}, "is a token of b@pve=********, and"),
    ({"api_token_id": SECRET}, "looks like a token's secret"),
    ({"api_token_id": f"a{SECRET[1:]}"}, "looks like a token's secret"),
    ({"api_token_id": f"a@pve!{SECRET}"}, "looks like a token's secret"),
    ({"api_token_id": f"a@pve!tt:{SECRET}"}, "looks like a token's secret"),
    ({"api_user": f"a@pve!tt={OTHER}"}, "is 'a@pve!tt=********', it must have its realm"),
    ({"api_user": f"a@pve={OTHER}"}, "is 'a@pve=********', it must have"),
    ({"api_user": f"a:{OTHER}@pve"}, "is 'a:********', it must have"),
    ({"api_user": SECRET}, "is '********', it must have"),
    ({"api_host": f"https://a:{OTHER}@10.1.2.6:8006"}, "is 'https://********@10.1.2.6:8006', it must be a name"),
    ({"api_host": f"https://a:x/{OTHER}@10.1.2.6"}, "must be a name or an address alone"),
    ({"api_host": f"https://a:x@{OTHER}@10.1.2.6"}, "is 'https://********@10.1.2.6', it must"),
    ({"api_host": f"a:{OTHER}@10.1.2.6"}, "has a user in it, and must be a name or an address alone"),
    ({"api_host": f"{OTHER}@10.1.2.6"}, "has a user in it"),
    ({"api_host": f"10.1.2.6/?PVEAPIToken=a@pve!tt={OTHER}"}, "must be a name or an address alone"),
    ({"api_host": f"10.1.2.6/{SECRET}"}, "is '10.1.2.6/********', it must"),
    ({"api_port": f"https://a:{OTHER}@10.1.2.6:8006"}, "is no whole number"),
    ({"api_port": OTHER}, "is no whole number"),
    ({"api_timeout": OTHER}, "is no number"),
    ({"api_fingerprint": OTHER}, "must be a SHA-256 fingerprint"),
    ({"api_fingerprint": SECRET}, "must be a SHA-256 fingerprint"),
    ({"api_token_secret": f"{OTHER} x"}, "has spaces"),
    (
        {"ca_path": f"-----BEGIN PRIVATE KEY-----\n{OTHER}\n-----END PRIVATE KEY-----\n"},
        "holds the certificates themselves",
    ),
    ({"ca_path": f"-----BEGIN PRIVATE KEY----- {OTHER}"}, "holds the certificates themselves"),
]


@pytest.mark.parametrize(("changed", "said"), LOOSE)
def test_a_secret_in_the_wrong_option_is_not_shown(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ApiUsage) as caught:
        options_from({**GIVEN, **changed})
    assert said in caught.value.message
    for secret in (SECRET, OTHER, SECRET[1:]):
        assert secret not in caught.value.message


@pytest.mark.parametrize("changed", [case[0] for case in LOOSE if set(case[0]) <= {"api_host", "api_token_id"}])
def test_a_module_hides_it_in_its_arguments_too(changed: dict[str, Any]) -> None:
    (value,) = changed.values()
    for hidden in sorted(loose_secrets(changed), key=len, reverse=True):
        value = value.replace(hidden, "")
    assert not any(secret in value for secret in (SECRET, OTHER, SECRET[1:]))


def test_nothing_is_hidden_of_what_is_right() -> None:
    assert loose_secrets({**GIVEN, "api_port": 8006, "api_token_id": "a@pve!tt"}) == set()
    assert loose_secrets({}) == set()


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
