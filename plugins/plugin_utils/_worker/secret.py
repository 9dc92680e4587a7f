# Copyright: (c) 2026, trainops contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a run's variables and words may be written down.

A variable's value may only where its name is known to be harmless (:data:`HARMLESS`, :data:`HARMLESS_BEGINNINGS`), or
where it is plainly a number, a truth value or paths that are there; nobody knows what stands in the others. Words of a
command are written down but for what looks like a secret. What is not written down is known by a digest, which tells
whether it is the same again and nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

HIDDEN = "***"

HARMLESS = re.compile(
    r"HOME|USER|LOGNAME|SHELL|PATH|LANG|LANGUAGE|LC_\w+|TZ|TERM|COLUMNS|LINES|TMPDIR|TE?MP|LD_LIBRARY_PATH|LD_PRELOAD"
    r"|MASTER_ADDR|MASTER_PORT|(?:NODE_|GROUP_|LOCAL_)?RANK|(?:LOCAL_)?WORLD_SIZE|NNODES|NPROC_PER_NODE"
    r"|TOKENIZERS_PARALLELISM|TRANSFORMERS_(?:CACHE|OFFLINE|VERBOSITY)|DATASETS_VERBOSITY"
    r"|HF_(?:HOME|ENDPOINT|HUB_CACHE|HUB_OFFLINE|DATASETS_CACHE|DATASETS_OFFLINE|HUB_ENABLE_HF_TRANSFER)"
    r"|WANDB_(?:PROJECT|ENTITY|NAME|NOTES|TAGS|RUN_GROUP|JOB_TYPE|MODE|DIR|BASE_URL|SILENT)"
    r"|MLFLOW_(?:TRACKING_URI|EXPERIMENT_NAME)|AWS_(?:DEFAULT_)?REGION|(?:HTTPS?|ALL|FTP|NO)_PROXY"
    r"|CC|CXX|CUDAHOSTCXX|LOG_?LEVEL|TRAINOPS_RUN(?:_ID)?|TRAINOPS_RELEASE",
    re.IGNORECASE,
)
# Libraries whose variables begin so.
HARMLESS_BEGINNINGS = re.compile(
    r"(?:CUDA|CUBLAS|CUDNN|NVIDIA|NCCL|GLOO|UCX|UCC|FI|OMPI|OMP|GOMP|KMP|MKL|OPENBLAS|NUMEXPR|PYTORCH|TRITON|XLA|JAX|TF"
    r"|DS|DEEPSPEED|ACCELERATE|VLLM|MALLOC)_|TORCH|PYTHON",
    re.IGNORECASE,
)

_STRONG = (
    r"passw(?:or)?d|passphrase|secret|credentials?|api[-_]?key|bearer|(?<![A-Za-z])pin"
    r"|(?:access|private|secret|auth|account|license|encryption|signing|ssh)[-_]?(?:key|token)"
)
_WEAK = r"token|(?<![A-Za-z])(?:key|auth|pwd|pass|jwt|pat|cookie)"
_STRONG_NAME = re.compile(rf"(?:{_STRONG})\d*$", re.IGNORECASE)
# Of a variable: such a word between underscores, or at its end.
_VARIABLE = re.compile(
    r"(?:^|_)(?:TOKEN|KEY|PASS|PWD|PIN|AUTH|PRIVATE|COOKIE|DSN|PAT|JWT|CREDS?)(?:$|_)|SECRET|PASSW|PASSPHRASE|APIKEY"
    r"|CREDENTIAL|(?:TOKEN|KEY|PASS|PWD|AUTH|PIN)\d*$",
    re.IGNORECASE,
)
_VALUE = r"'[^']*'|\"[^\"]*\"|[^\s'\";&|]+"
_NAMED = re.compile(
    rf"(?P<name>[-+~]{{0,3}}(?:[\w.][-\w.]{{0,64}}?)?(?:{_STRONG}|{_WEAK})\d*)(?P<sep>['\"\]]*\s*[=:]\s*|\s+)(?P<value>{_VALUE})",
    re.IGNORECASE,
)
_OPTION = re.compile(rf"--?(?:[\w.][-\w.]{{0,64}}?)?(?:{_STRONG}|{_WEAK})\d*", re.IGNORECASE)
_ALNUM = "[A-Za-z0-9]"
# A login in a URL, a secret in its query, the header of a login, and what services make their tokens look like.
_LOOKS = (
    (re.compile(r"(?<=://)[^/@\s'\"]+(?=@)"), HIDDEN),
    (re.compile(r"(?i)([?&][\w-]*(?:token|key|sig|signature|secret|password|auth)=)[^&\s'\"#]+"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), HIDDEN),
    (re.compile(r"\b(?:hf_|gh[opsur]_|github_pat_|glpat-|sk-|xox[abprs]-|AKIA|ASIA|nvapi-|pypi-)[\w-]{12,}"), HIDDEN),
    (re.compile(rf"(?<!{_ALNUM})(?={_ALNUM}*[a-z])(?={_ALNUM}*[A-Z])(?=(?:{_ALNUM}*\d){{2}}){_ALNUM}{{24,}}"), HIDDEN),
)
_TRUTH = re.compile(r"true|false|yes|no|on|off|none|null", re.IGNORECASE)
_PLAIN = re.compile(rf"[-+]?(?:\d{{1,12}}(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|{_TRUTH.pattern}", re.IGNORECASE)
_WORD = re.compile(r"[a-z]+(?:[-_. ][a-z]+)*|[A-Z]+(?:_[A-Z]+)*|.{0,5}|.*[<>\[\]{}()].*", re.DOTALL)


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable may not be written down."""
    if without_secrets(value) != value:
        return True
    if HARMLESS.fullmatch(name):
        return False
    if _VARIABLE.search(name):
        return True
    return not (HARMLESS_BEGINNINGS.match(name) or _PLAIN.fullmatch(value) or not value or is_path(value))


def is_path(text: str) -> bool:
    """Whether a text is a path, or several with colons between, of which at least the first folder is there."""
    return all(_is_one_path(part) for part in text.split(":"))


def _is_one_path(text: str) -> bool:
    if text.startswith(("./", "../", "~/")):
        return len(text) < 256
    first = text.split("/", 2)[1] if text.startswith("/") else ""
    return bool(first) and os.path.lexists(f"/{first}")


def shown_words(words: Sequence[str]) -> list[str]:
    """The words of a command with ``***`` for what looks like a secret."""
    shown: list[str] = []
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        hidden = _OPTION.fullmatch(before) and not word.startswith("--") and _is_hidden(before, word)
        shown.append(HIDDEN if hidden else without_secrets(word))
    return shown


def secrets_of(words: Sequence[str]) -> list[str]:
    """The parts of words that :func:`shown_words` hides, the longest first."""
    found: list[str] = []
    for word, shown in zip(words, shown_words(words)):
        pieces = [re.escape(piece) for piece in shown.split(HIDDEN)]
        match = re.fullmatch("(.+?)".join(pieces), word, re.DOTALL) if shown != word else None
        found += match.groups() if match else []
    return sorted(set(found), key=len, reverse=True)


def without_secrets(text: str) -> str:
    """A text, such as a whole command line, with ``***`` for what looks like a secret."""
    for pattern, instead in _LOOKS:
        text = pattern.sub(instead, text)
    return _NAMED.sub(_named, text)


def _named(match: re.Match[str]) -> str:
    name, sep, value = match["name"], match["sep"], match["value"]
    if HIDDEN in value or (not sep.strip() and not name.startswith("-")) or value.startswith(("--", "//")):
        return match[0]
    bare = value[1:-1] if value[:1] in ("'", '"') else value
    quote = value[:1] if bare != value else ""
    return f"{name}{sep}{quote}{HIDDEN}{quote}" if _is_hidden(name, bare) else match[0]


def _is_hidden(name: str, value: str) -> bool:
    """Whether what an option is given is a secret: with some names nearly always, with others where it looks so."""
    if not value or is_path(value):
        return False
    if _STRONG_NAME.search(name):
        return not _TRUTH.fullmatch(value)
    return not (_PLAIN.fullmatch(value) or _WORD.fullmatch(value))


def digest(key: bytes, name: str, value: str) -> str:
    """What tells whether a value that is not written down is the same again."""
    return hmac.new(key, f"{name}\0{value}".encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[:32]
