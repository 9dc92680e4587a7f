"""Values as they are handed to Ansible: what a person typed is taken as it is, whatever braces are in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_TEMPLATES = ("{{", "{%", "{#", "#jinja2:")  # the last one, in front, may say that a template is marked otherwise


class Literal(str):
    """A text that is no template."""


def literal(value: Any) -> Any:
    """The same value with every text in it, but for the keys of dicts, as a Literal."""
    if isinstance(value, str):
        return Literal(value)
    if isinstance(value, Mapping):
        return {key: literal(inner) for key, inner in value.items()}
    return [literal(inner) for inner in value] if isinstance(value, list | tuple) else value


def looks_like_template(text: str) -> bool:
    """Whether Ansible would take a text for a template."""
    return any(mark in text for mark in _TEMPLATES)


def printable(text: str) -> str:
    """The text on one line, with all that cannot be printed written out, which is more than YAML begins a line at."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def written(values: Mapping[str, Any]) -> str:
    """The values as YAML for Ansible; literal texts that look like templates are marked ``!unsafe``.

    Raises TypeError or ValueError for what JSON does not have.
    """
    text = json.dumps(dict(values))
    if not looks_like_template(text):
        return text  # which is YAML too, and costs no import
    import yaml

    class Dumper(yaml.SafeDumper):
        """Knows literal texts."""

    def represent(dumper: yaml.SafeDumper, value: Literal) -> yaml.ScalarNode:
        tag = "!unsafe" if looks_like_template(value) else "tag:yaml.org,2002:str"
        return dumper.represent_scalar(tag, str(value), style='"')

    Dumper.add_representer(Literal, represent)
    dumped: str = yaml.dump(dict(values), Dumper=Dumper, allow_unicode=True, width=1_000_000)
    return dumped
