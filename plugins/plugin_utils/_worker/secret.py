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

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

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
_NAME = re.compile(rf"(?:{_STRONG}|{_WEAK})\d*$", re.IGNORECASE)
_OPTION = re.compile(rf"--?[^\s=:]*?(?:{_STRONG}|{_WEAK})\d*", re.IGNORECASE)
# Options that only say whether, with a name like that of a secret.
_SWITCH = re.compile(r"--?(?:use|no|with|without|enable|disable|ask|prompt|require|skip|save|show)[-_]", re.IGNORECASE)
# What a following option looks like, and no value of an option.
_NEXT = re.compile(r"--?[a-z]+(?:[-_.][a-z]+)*\d{0,2}(?:=.*)?", re.DOTALL)
_ASSIGNED = re.compile(r"(?P<name>[^\s=:'\"]*)[=:]\s*")
_NAMED = re.compile(rf"(?:{_STRONG}|{_WEAK})\d*(?P<sep>\\?['\"\]]*\s*(?:=>?|:)\s*|\s+)(?P<quote>['\"]?)", re.IGNORECASE)
_BEFORE = re.compile(r"[-+~\w.]*$")
_QUOTED = {"'": re.compile(r"([^'\\]*)'"), '"': re.compile(r'((?:[^"\\]|\\.)*)"', re.DOTALL)}
_AFTER_QUOTE = re.compile(r"$|[\s,;)}\]&|]")
# A value in a shell's text, as far as it is surely one: it ends where that shell would end the word.
_BARE = re.compile(r"(\$\w+|\$\{\w+\}|[^\s'\"\\;&|()<>`$]+)(?=$|[\s;&|)<>])")
_VARIABLE_USED = re.compile(r"\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\}")
_RUNS_TEXT = re.compile(r"(?:[bdzkm]?a?sh|fish|busybox|python[\d.]*)")
_CODE = re.compile(r"-[A-Za-z]*c")
# A login before a host: in a URL, and without its beginning, as proxies have it.
_URL_LOGIN = re.compile(r"(?<=://)(?:[^\s/:'\"]*:.*|[^\s/:'\"]+)(?=@)", re.DOTALL)
_BARE_LOGIN = re.compile(r"(?:^|(?<=[='\",;(\[{]))(?![a-z][a-z\d+.-]*://)[^\s/:'\"=,;(\[{]+:.*(?=@)")
_USER = re.compile(r"[^/,;(\[{]+:")
_ALNUM = "[A-Za-z0-9]"
# A secret in a URL's query, the header of a login, and what services make their tokens look like.
_LOOKS = (
    re.compile(r"(?i)[?&][\w-]*(?:token|key|sig|signature|secret|password|auth)=([^&\s]+)"),
    re.compile(r"(?i)\b(?:bearer|basic)\s+([^\s'\",]{6,})"),
    re.compile(r"(?<![\w-])(eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?)"),
    re.compile(r"\b((?:hf_|gh[opsur]_|github_pat_|glpat-|sk-|xox[abprs]-|AKIA|ASIA|nvapi-|pypi-)[\w-]{12,})"),
    re.compile(rf"(?<!{_ALNUM})((?={_ALNUM}*[a-z])(?={_ALNUM}*[A-Z])(?=(?:{_ALNUM}*\d){{2}}){_ALNUM}{{24,}})"),
)
_TRUTH = re.compile(r"true|false|yes|no|on|off|none|null", re.IGNORECASE)
_PLAIN = re.compile(rf"[-+]?(?:\d{{1,12}}(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|{_TRUTH.pattern}", re.IGNORECASE)
# What is meant by --pad-token, --sort-key and the like: a word or two, or a mark in brackets.
_WORD = re.compile(r"(?=.{1,24}$)(?:[a-z]+(?:[-_.][a-z]+){0,2}|[A-Z]+(?:_[A-Z]+){0,2}|</?[\w|]+>|\[[A-Z]+\])")


def is_secret(name: str, value: str) -> bool:
    """Whether the value of a variable may not be written down."""
    if _spans_of_word(value):
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
        return re.fullmatch(r"[\w./~@+-]{1,255}", text) is not None
    first = text.split("/", 2)[1] if text.startswith("/") else ""
    return bool(first) and os.path.lexists(f"/{first}")


def shown_words(words: Sequence[str], known: Collection[str] = ()) -> list[str]:
    """The words of a command with ``***`` for what looks like a secret, and for the texts ``known`` to be one."""
    found = _spans(words, known)
    return [_shown(word, spans) for word, spans in zip(words, found)]


def secrets_of(words: Sequence[str]) -> list[str]:
    """The parts of words that :func:`shown_words` hides, the longest first."""
    found = {word[start:end] for word, spans in zip(words, _spans(words)) for start, end in spans}
    return sorted(found, key=lambda part: (-len(part), part))


def without_secrets(text: str) -> str:
    """A whole command line, as a shell would read it, with ``***`` for what looks like a secret."""
    return _shown(text, _merged(_spans_of_text(text, is_code=True)))


def _spans(words: Sequence[str], known: Collection[str] = ()) -> list[list[tuple[int, int]]]:
    """Where in each word there are secrets: [(start, end)], in their order and apart."""
    found: list[list[tuple[int, int]]] = []
    runs_text = False
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        spans = [hit.span() for one in known if one for hit in re.finditer(re.escape(one), word)]
        if _is_given(before, word):
            spans.append((0, len(word)))
        elif runs_text and _CODE.fullmatch(before):
            spans += _spans_of_text(word, is_code=True)
        else:
            spans += _spans_of_word(word)
        found.append(_merged(spans))
        runs_text = runs_text or _RUNS_TEXT.fullmatch(word.rpartition("/")[2]) is not None
    return found


def _is_given(option: str, word: str) -> bool:
    """Whether a whole word is the secret that an option before it is given."""
    if not _OPTION.fullmatch(option):
        return False
    surely = _STRONG_NAME.search(option) and not _SWITCH.match(option)
    return _is_hidden(option, word) and bool(surely or not _NEXT.fullmatch(word))


def _spans_of_word(word: str) -> list[tuple[int, int]]:
    """A word's bounds are known: whatever follows a secret's name and ``=`` or ``:`` is its value, all of it."""
    at, last = 0, word.rfind("@")
    while match := _ASSIGNED.match(word, at):
        at = match.end()
        if at <= last and _USER.fullmatch(match[0]) and not word.startswith("//", at):
            return [(match.start(), last), *_spans_of_text(word)]
        if _NAME.search(match["name"]) and _is_hidden(match["name"], word[at:]):
            return [*_spans_of_text(word[:at]), (at, len(word))]
    return _spans_of_text(word)


def _spans_of_text(text: str, is_code: bool = False) -> list[tuple[int, int]]:
    """Secrets within a text that nobody has split; of ``is_code`` it is known that a shell or Python will read it."""
    found = [*_logins(text), *(match.span(1) for pattern in _LOOKS for match in pattern.finditer(text))]
    at = 0
    while match := _NAMED.search(text, at):
        at = match.end()
        name = _BEFORE.search(text[max(0, match.start() - 64) : match.start()])
        start = match.start() - len(name[0] if name else "")
        if match["sep"].strip() or text[start] == "-":
            end = _end_of_value(text, match, is_code)
            if end:
                found.append((at, end))
                at = end
    return found


def _end_of_value(text: str, named: re.Match[str], is_code: bool) -> int:
    """Where the value after a secret's name ends, 0 where it is none; in doubt it is all the rest."""
    name = text[named.start() : named.start("sep")]
    quote = named["quote"]
    pattern = _QUOTED[quote] if quote else _BARE
    value = pattern.match(text, named.end()) if quote or (is_code and ":" not in named["sep"]) else None
    if value is None:
        rest = text[named.end() :]
        is_none = is_code and not quote and rest.startswith(tuple(";&|)<>"))
        return len(text) if not is_none and _is_hidden(name, rest) else 0
    if is_code and quote != "'" and _VARIABLE_USED.fullmatch(value[1]):
        return 0
    if quote and not _AFTER_QUOTE.match(text, value.end()):
        return len(text)
    if not named["sep"].strip() and not _STRONG_NAME.search(name) and _NEXT.fullmatch(value[1]):
        return 0
    return value.end(1) if _is_hidden(name, value[1]) else 0


def _logins(text: str) -> list[tuple[int, int]]:
    """Names and passwords before a host. Nothing beyond the last @ is searched: each search that begins ends there."""
    last = text.rfind("@")
    found = [match.span() for match in _URL_LOGIN.finditer(text[: last + 1])]
    for part in re.finditer(r"\S+", text[: last + 1]):
        begun = part[0][: part[0].rfind("@") + 1]
        found += [(part.start() + match.start(), part.start() + match.end()) for match in _BARE_LOGIN.finditer(begun)]
    return found


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > start:
            found.append((start, end))
    return found


def _shown(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], HIDDEN]
        at = end
    return "".join([*pieces, text[at:]])


def _is_hidden(name: str, value: str) -> bool:
    """Whether what an option is given is a secret: with some names nearly always, with others where it looks so."""
    if not value or is_path(value):
        return False
    if _STRONG_NAME.search(name):
        return not _TRUTH.fullmatch(value)
    return not ((_PLAIN.fullmatch(value) and len(value) <= 8) or _WORD.fullmatch(value))


def digest(key: bytes, name: str, value: str) -> str:
    """What tells whether a value that is not written down is the same again."""
    import hashlib  # only a launch needs them
    import hmac

    return hmac.new(key, f"{name}\0{value}".encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()[:32]
