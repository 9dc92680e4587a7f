# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One text as words: what a real shell makes of it, or an error."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.trainops.proxmox.plugins.plugin_utils._worker.words import ShellNeeded, split
from hypothesis import event, given, settings
from hypothesis import strategies as st

# Pieces that are closed, so that most texts are words, and the bare characters of which many are not.
_ANY = st.text(alphabet='ab \\$`~#|"é', max_size=4)
_PIECES = st.one_of(
    st.text(alphabet="ab  \\$~#*{}=!", max_size=4),
    _ANY.map(lambda text: f"'{text}'"),
    st.text(alphabet="ab \\$~#|'é", max_size=4).map(lambda text: f'"{text}"'),
    st.sampled_from(["\\$", '\\"', "\\'", "\\\\", '"\\$"', '"\\`"', '"\\""', "$", "`"]),
)
_TEXTS = st.lists(_PIECES, max_size=6).map("".join)


def by_sh(text: str) -> list[str]:
    """The words that the shell hands to a program."""
    code = "set -f; f() { for word; do printf '%s\\0' \"$word\"; done; }; f " + text
    done = subprocess.run(["sh", "-c", code], capture_output=True, check=True, env={"HOME": "/home"})
    return [word.decode() for word in done.stdout.split(b"\0")[:-1]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \t ", []),
        ("a  b", ["a", "b"]),
        ("a\\ b 'c d' \"e f\"", ["a b", "c d", "e f"]),
        ("'' \"\" a''b", ["", "", "ab"]),
        (r'"\$HOME" "\`id\`" "\"" "\\"', ["$HOME", "`id`", '"', "\\"]),
        (r'"\a\n\x" "a\ b"', [r"\a\n\x", r"a\ b"]),
        (r"'\$HOME' '\' \$HOME \'", [r"\$HOME", "\\", "$HOME", "'"]),
        ("'$HOME `id` | > #' \"| > ~ #\"", ["$HOME `id` | > #", "| > ~ #"]),
        ('a$ $ "$" \'$\' "a$ b" $.x', ["a$", "$", "$", "$", "a$ b", "$.x"]),
        ("a#b --tag=#1 x~ a~/b", ["a#b", "--tag=#1", "x~", "a~/b"]),
        ('a \\\n  --b "c\\\nd"', ["a", "--b", "cd"]),
        ("model.* {release}/x.py a[0] !x", ["model.*", "{release}/x.py", "a[0]", "!x"]),
        ('größe="1 m"', ["größe=1 m"]),
    ],
)
def test_words_are_those_of_a_shell(text: str, words: list[str]) -> None:
    assert split(text) == words == by_sh(text)


def test_the_end_of_a_line_is_a_blank() -> None:
    assert split("torchrun\n  --n 8\n") == ["torchrun", "--n", "8"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a $HOME/x", "$HOME"),
        ('a "$HOME/x"', "$HOME"),
        ("a ${X:-y} b", "${X:-y}"),
        ("a $(date)", "$("),
        ("a `date`", "`"),
        ('"`date`"', "`"),
        ("a && b", "&&"),
        ("a;b", ";"),
        ("a 2>&1", "2>&1"),
        ("a > log", ">"),
        ("(a)", "("),
        ("a # b", "#"),
        ("a ~/x", "~"),
        ("a ~", "~"),
        ("a ~user/data", "~"),
        ("~+", "~"),
        ("a --password $TAIL", "$"),
        ("a --password 'x y'\"${TAIL}\"", "$"),
        ("a --api-key=pa$TAIL", "$"),
        ("a --password x $TAIL", "$TAIL"),
        ("a $'x'", "$'"),
        ("http://h/?a=1&b=2", "&"),
    ],
)
def test_what_only_a_shell_can_do_is_refused(text: str, part: str) -> None:
    with pytest.raises(ShellNeeded) as caught:
        split(text)
    assert str(caught.value) == part


@pytest.mark.parametrize("text", ["a 'b", 'a "b', 'a "b\\"', "a\\"])
def test_what_has_no_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"never closed|nothing behind") as caught:
        split(text)
    assert not isinstance(caught.value, ShellNeeded)


@settings(max_examples=300, deadline=None)
@given(_TEXTS)
def test_whatever_is_not_refused_is_what_a_shell_makes_of_it(text: str) -> None:
    try:
        words = split(text)
    except ValueError:
        event("refused")
        return
    event(f"{min(len(words), 3)} words")
    assert words == by_sh(text)
