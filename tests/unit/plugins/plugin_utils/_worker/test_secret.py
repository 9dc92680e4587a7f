# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of variables and words may be written down."""

from __future__ import annotations

import json
import shlex

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.secret import (
    digest,
    is_path,
    is_secret,
    secrets_of,
    shown_words,
    without_secrets,
)
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        # known names, unless they or their values say otherwise
        ("PATH", "/bin", False),
        ("NCCL_DEBUG", "INFO", False),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", False),
        ("TORCH_LOGS", "+dynamo", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("WANDB_PROJECT", "dflash", False),
        ("https_proxy", "http://proxy:3128", False),
        ("https_proxy", "http://me:pw@proxy:3128", True),
        ("https_proxy", "http://tok3n@proxy:3128", True),
        ("HTTP_PROXY", "http://user:SeCrEt/x@proxy:3128", True),
        ("http_proxy", "user:SeCrEt99x@proxy:3128", True),
        ("ALL_PROXY", "corp\\bob:pw@proxy:3128", True),
        ("ALL_PROXY", "me@corp.de:pw@proxy:3128", True),
        ("ALL_PROXY", "proxy:3128", False),
        ("NO_PROXY", "localhost,10.0.0.0/8,[::1]", False),
        ("PYTHON_TOKEN", "x", True),
        ("WANDB_API_KEY", "x", True),
        ("NCCL_X", "hf_abcdefghijklmnopqrst", True),
        # plain values of unknown names
        ("MAX_TOKENS", "4096", False),
        ("BATCH", "1e-4", False),
        ("DEBUG", "True", False),
        ("EMPTY", "", False),
        ("DATA", "/usr/share", False),
        ("DATA", "/usr/share:./data", False),
        ("DATA", "/no5uchF0lder/x", True),
        # a name says that a number is none
        ("PIN", "1234", True),
        ("MY_KEY2", "1234", True),
        ("HFTOKEN", "1", True),
        # and all others
        ("HF_TOKEN", "x", True),
        ("HFTOKEN", "x", True),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("db_password", "x", True),
        ("GITHUB_PAT", "x", True),
        ("WHATEVER", "hunter2", True),
        ("PRECISION", "bf16", True),
        ("URL", "https://me:pw@host/x", True),
        ("URL", "https://t0ken@host/x", True),
        ("KEYBOARD", "de", True),
    ],
)
def test_only_what_is_known_to_be_harmless_is_written_down(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("--api-key X", "--api-key ***"),
        ("--token=X1y2z3 --n 3", "--token=*** --n 3"),
        ("--hf-token abc123 --hftoken abc123", "--hf-token *** --hftoken ***"),
        ("--password hunter --passphrase=a", "--password *** --passphrase=***"),
        ("--password 1234 --pin 1234", "--password *** --pin ***"),
        ("--client-secret -x1", "--client-secret ***"),
        ("logger.wandb.api_key=zzz +x.token=q1w2e3", "logger.wandb.api_key=*** +x.token=***"),
        ("HFTOKEN=q1w2e3 A=b", "HFTOKEN=*** A=b"),
        ("https://TOKEN@host/x s3://me:pw@h", "https://***@host/x s3://***@h"),
        ("'https://h/x?a=1&sig=ab&b=2'", "'https://h/x?a=1&sig=***&b=2'"),
        ("'Authorization: Bearer abcdef1'", "'Authorization: Bearer ***'"),
        ("hf_abcdefghijklmnopqrst", "***"),
        ("--x ghp_0123456789abcdefghij", "--x ***"),
        ("wJalrXUtnFEMIK7MDENGbPx3fiCY", "***"),
        ('\'{"token": "ab12cd", "n": 1}\'', '\'{"token": "***", "n": 1}\''),
        (
            """bash -c 'export A_TOKEN=q1w2e3; t --password "a b" --n 3'""",
            """bash -c 'export A_TOKEN=***; t --password "***" --n 3'""",
        ),
    ],
)
def test_secrets_in_words_are_hidden(command: str, shown: str) -> None:
    assert shown_words(shlex.split(command)) == shlex.split(shown)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--password=correct horse battery staple"], ["--password=***"]),
        (["--token=aB3;tailOfToken99"], ["--token=***"]),
        (["--token", "aB3"], ["--token", "***"]),
        (["--token", "correct-horse-battery-staple"], ["--token", "***"]),
        (["--api-key=k&SeCrEtTail99"], ["--api-key=***"]),
        (["--key=abc.def|Tail99secret"], ["--key=***"]),
        (["--password=--xTail99"], ["--password=***"]),
        (["--password", "--x-tail"], ["--password", "***"]),
        (["--token", "--x9Tail"], ["--token", "***"]),
        (["--use-auth-token", "--lr", "3", "--token", "--lr"], ["--use-auth-token", "--lr", "3", "--token", "--lr"]),
        (["--api-key=//abcTail99"], ["--api-key=***"]),
        (["--api-key", "a***Tail99"], ["--api-key", "***"]),
        (["--api-key=a***Tail99"], ["--api-key=***"]),
        (["--token=abc(def)Tail99"], ["--token=***"]),
        (["--set=x.api_key=abc def"], ["--set=x.api_key=***"]),
        (["--header", "X-Api-Key: abc def"], ["--header", "X-Api-Key: ***"]),
        (['{"api_key": "abc\\"Tail", "n": 1}'], ['{"api_key": "***", "n": 1}']),
        (["{n: 1, api_key: abc def}"], ["{n: 1, api_key: ***"]),
        (["--proxy", "http://u:pa/SeCrEt@h"], ["--proxy", "http://***@h"]),
        (["http://u:my pass@h/", "http://me@corp.de:pw@h/"], ["http://***@h/", "http://***@h/"]),
        (["user:pw@proxy:3128", "--proxy=user:p w@h"], ["***@proxy:3128", "--proxy=***@h"]),
        (["sh", "-c", "x --password ab\\ cTail99"], ["sh", "-c", "x --password ***"]),
        (["sh", "-c", "x --password 'ab'cTail99"], ["sh", "-c", "x --password '***"]),
        (["sh", "-c", "x -H 'X-Api-Key: ab c'"], ["sh", "-c", "x -H 'X-Api-Key: ***"]),
        (["sh", "-c", 'x --password "$PW" --n 3'], ["sh", "-c", 'x --password "$PW" --n 3']),
        (["sh", "-c", "x --password '$PW' --n 3"], ["sh", "-c", "x --password '***' --n 3"]),
        (["git", "-c", "password=correct horse"], ["git", "-c", "password=***"]),
    ],
)
def test_the_whole_of_a_secret_is_hidden(words: list[str], shown: list[str]) -> None:
    assert shown_words(words) == shown


@given(
    st.text(alphabet="aB3;&|'\"\\ =:@/*-$<>{}()[],#?~.\n", min_size=1, max_size=8).filter(
        lambda text: not is_path(text)
    ),
    st.sampled_from(
        ["--password=", "--password\0", "--api-key=", "a.token=", "--x=b.token=", "password:", "A_KEY=", "http://u:"]
    ),
)
def test_no_sign_ends_a_secret(text: str, before: str) -> None:
    secret = f"q{text}TaIl99"
    words = (before + secret + ("@host" if before.startswith("http") else "")).split("\0")
    assert "TaIl99" not in " ".join(shown_words(words))
    assert "TaIl99" not in shown_words([json.dumps({"n": 1, "api_key": secret})])[0]
    code = f"cd x && t --password {shlex.quote(secret)} --n 3"
    assert "TaIl99" not in shown_words(["bash", "-c", code])[2]


@pytest.mark.parametrize(
    "command",
    [
        "train.py --lr 1e-4 --out /root/x --tokenizer gpt2-Medium7 --max-tokens 4096 --num-keys 8",
        "--pad-token <pad> --eos-token '</s>' --mask-token '[MASK]' --sort-key validation_loss --bypass abc123",
        "--use-auth-token --lr 3 --token true --api-key-file /etc/passwd --private-key /etc/passwd",
        "--pin-memory x1y2z3a4",
        "s3://bucket/key:1 user@host ssh://host/x --revision 0123456789abcdef0123456789abcdef01234567",
        "torchrun --nproc_per_node 8 /root/.trainops/demo/releases/0123456789abcdef/train.py --name Run7",
        "bash -c 'cd /root && python -m pkg --key x'",
    ],
)
def test_ordinary_words_stay_as_they_are(command: str) -> None:
    words = shlex.split(command)
    assert (shown_words(words), secrets_of(words)) == (words, [])


def test_the_hidden_parts_are_known_for_what_shows_a_command_line() -> None:
    words = ["t", "--token", "a b c d1", "--url=https://u:p@h/x?sig=zz"]
    assert secrets_of(words) == ["a b c d1", "u:p", "zz"]
    assert shown_words(["a", "xzzx", "zz"], ["zz", ""]) == ["a", "x***x", "***"]
    assert without_secrets("python t.py --token a1b2c3 --n 3") == "python t.py --token *** --n 3"


def test_a_word_of_any_length_takes_no_time() -> None:
    for long in ("a" * 200_000, "-" * 200_000, "token" * 40_000, "a.b-" * 50_000, "aB1" * 70_000, "?" * 200_000):
        assert len(shown_words(["--x", long])) == 2
    for long in ("eyJ-" * 50_000, "://a:" * 40_000, ",a:" * 60_000 + " @", "key='" * 40_000, "--key " * 30_000):
        assert len(shown_words(["--x", long, "sh", "-c", long])) == 5


def test_a_path_is_one_that_begins_in_a_folder_that_is_there() -> None:
    assert [is_path(text) for text in ("/usr/x", "./x", "~/x", "/usr:/no5uch/x", "usr/x", "/")] == [
        *(True, True, True),
        *(False, False, False),
    ]


def test_a_digest_tells_the_same_value_again_and_needs_the_key() -> None:
    told = digest(b"key", "A", "x")
    assert told == digest(b"key", "A", "x")
    assert len({told, digest(b"key", "A", "y"), digest(b"key", "B", "x"), digest(b"other", "A", "x")}) == 4
