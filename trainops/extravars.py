"""Variables as ``-e`` takes them on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainops.errors import WrongExtravars


@dataclass(frozen=True)
class Extravars:
    """What the options ``-e`` named: files, and values that win over them."""

    files: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


def read_extravars(texts: Sequence[str]) -> Extravars:
    """Read ``@FILE``, a JSON or YAML mapping, or ``name=value`` words, as ansible-playbook's ``-e`` takes them.

    Raises WrongExtravars.
    """
    import shlex

    read = Extravars()
    for text in texts:
        if text.startswith("@"):
            read.files.append(str(Path(text[1:]).expanduser()))
        elif text.lstrip().startswith("{"):
            read.values.update(_mapping(text))
        else:
            try:
                words = shlex.split(text)
            except ValueError as error:
                raise WrongExtravars(f"-e {text!r}: {error}") from error
            for word in words:
                name, equals, value = word.partition("=")
                if not equals:
                    raise WrongExtravars(f"-e {text!r}: {word!r} is not NAME=VALUE (nor @FILE, nor a JSON mapping)")
                read.values[name] = value
    return read


def _mapping(text: str) -> dict[str, Any]:
    import yaml

    try:
        loaded = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise WrongExtravars(f"-e {text!r} is neither JSON nor YAML: {error}") from error
    if not isinstance(loaded, dict):
        raise WrongExtravars(f"-e {text!r} is no mapping")
    return loaded
