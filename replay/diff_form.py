"""An event as it is compared: what the rules leave of it, and a key for finding it on the other side.

In the form, ids and seqs are ``Id`` and ``Cited`` objects. Two of them cannot be compared by themselves, only with what
other events say (``diff_links.py``). ``Marks`` tells what is left when they are blotted out: a key, equal for two forms
that may be the same, and what was blotted out, in an order that depends on the key alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import msgspec

from playhead.eventstore import members
from playhead.eventstore.sources import PLUGIN_KINDS, PROMPT_PLUGIN
from playhead.projections import same_json
from playhead.replay.diff_rules import RULES, Rule, Treatment

REPAIR_CODES = frozenset({"TOOL_NOT_STARTED", "TOOL_OUTCOME_UNKNOWN"})
"""The error codes of results that a crash repair made up."""

ADDRESS = "<address>"
"""Stands for the address of a provider."""

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_BEGINS = r"(?:(?<![0-9A-Za-z\\])|(?<=\\[nrt]))"  # behind an escape too: texts of JSON lie in texts of JSON
_WORD = rf"{_BEGINS}(?:{_UUID}|[A-Za-z][A-Za-z0-9_]*-[0-9a-f]{{16}})(?![0-9A-Za-z])"
ID_WORD = re.compile(_WORD)
"""A piece of text that looks like an id which no person chose."""

_ID_BYTES = re.compile(_WORD.encode())
_BLOT = "\ue000"
_ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]*://[^\s\"'<>()]+|(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):\d{2,5}(?![0-9A-Za-z])"
)


class Id:
    """An id of some ``role``. ``again`` says that it may have stood for something else before."""

    __slots__ = ("again", "role", "text")

    def __init__(self, role: str, text: str, again: bool = False) -> None:
        self.role = role
        self.text = text
        self.again = again

    def __str__(self) -> str:
        return _BLOT + self.role


class Cited:
    """The seq of another event."""

    __slots__ = ("seq",)

    def __init__(self, seq: int) -> None:
        self.seq = seq

    def __str__(self) -> str:
        return f"{_BLOT}#"


Leaf = Id | Cited


class Marks(NamedTuple):
    """A form with its ids and seqs blotted out: ``key``, the ``leaves``, and the id-like ``words`` in its texts.

    ``leaves`` is None where the form is nested so deeply that nobody lists them.
    """

    key: bytes
    leaves: tuple[Leaf, ...] | None
    words: tuple[str, ...]


@dataclass(frozen=True)
class _Node:
    """The rules for a value: the one about itself, and those about its members (``[]``: its elements)."""

    treatment: Treatment | None
    role: str
    below: Mapping[str, _Node]


@cache
def _rules(repairs: bool) -> Mapping[str, _Node]:
    """The rules by event type, as trees of paths; with those for results of a crash repair, or without."""
    trees: dict[str, dict[str, Any]] = {}
    for rule in RULES:
        if rule.treatment is Treatment.REPAIR and not repairs:
            continue
        for type, paths in rule.where.items():
            for path in paths:
                level = trees.setdefault(type, {})
                for member in path.replace("[]", ".[]").split("."):
                    level = level.setdefault(member, {})
                level[""] = rule
    return {type: _node(tree) for type, tree in trees.items()}


def _node(tree: dict[str, Any]) -> _Node:
    rule: Rule | None = tree.get("")
    below = {member: _node(inner) for member, inner in tree.items() if member}
    return _Node(None, "", below) if rule is None else _Node(rule.treatment, rule.role, below)


def form_of(type: str, data: Any) -> Any:
    """What is compared of ``data``, any JSON value, of an event of this type. What no rule is about is shared."""
    node = _rules(_is_repair(type, data)).get(type)
    return data if node is None else _kept(node, data, members.NOTHING)


def _is_repair(type: str, data: Any) -> bool:
    if type != "tool/result" or not isinstance(data, dict):
        return False
    return members.text(members.inner(data, "error"), "code") in REPAIR_CODES


def _kept(node: _Node, value: Any, holder: Mapping[str, Any]) -> Any:
    """``value`` as the rules leave it; ``holder`` is the object that it is a member of."""
    if isinstance(value, dict):
        kept = _members_kept(node, value) if node.below else value
        return _with_kind(kept, holder) if node.treatment is Treatment.SOURCE else kept
    if isinstance(value, list) and "[]" in node.below:
        return [_kept(node.below["[]"], item, members.NOTHING) for item in value]
    return _leaf(node, value)


def _members_kept(node: _Node, value: dict[str, Any]) -> dict[str, Any]:
    kept = dict(value)
    for member, inner in node.below.items():
        if member in kept:
            if inner.treatment in (Treatment.DROP, Treatment.REPAIR):
                del kept[member]
            else:
                kept[member] = _kept(inner, value[member], value)
    return kept


def _leaf(node: _Node, value: Any) -> Any:
    match node.treatment:
        case Treatment.ID | Treatment.CALL if isinstance(value, str):
            return Id(node.role, value, node.treatment is Treatment.CALL)
        case Treatment.SEQ if type(value) is int:
            return Cited(value)
        case Treatment.ADDRESS if isinstance(value, str):
            return _ADDRESS.sub(ADDRESS, value)
    return value


def _with_kind(source: dict[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """The source with its kind as format 4 spells it."""
    plugin = source.get("plugin")
    if source.get("kind") != "plugin" or not isinstance(plugin, str):
        return source
    if plugin == PROMPT_PLUGIN:
        kind = "system-prompt" if message.get("role") == "system" else "runtime-context"
    else:
        kind = PLUGIN_KINDS.get(plugin, f"plugin:{plugin}")
    return {"kind": kind} | {key: value for key, value in source.items() if key not in ("kind", "plugin")}


def marks_of(form: Any) -> Marks:
    """The marks of a form, or of a part of one. Any value will do."""
    leaves: list[Leaf] = []
    text = _blotted(form, leaves)
    if text is None:
        return Marks(same_json.digest(form).encode(), None, ())
    words = tuple(word.decode() for word in _ID_BYTES.findall(text))
    if words:
        text = _ID_BYTES.sub(_BLOT.encode(), text)
    return Marks(hashlib.blake2b(text, digest_size=16).digest(), tuple(leaves), words)


def _blotted(form: Any, leaves: list[Leaf]) -> bytes | None:
    """The JSON text of ``form``, members sorted, its leaves blotted out and listed; None for one nested too deeply."""

    def blot(leaf: Leaf) -> str:
        leaves.append(leaf)
        return str(leaf)

    try:
        return msgspec.json.Encoder(order="sorted", enc_hook=blot).encode(form)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        leaves.clear()  # lone surrogates, integers of more than 64 bits, deep nesting
    try:
        return json.dumps(form, sort_keys=True, default=blot).encode()
    except RecursionError:
        return None


def plain(form: Any, depth: int = 0) -> Any:
    """A form, or a part of one, as JSON: ids and seqs as they stand in the log."""
    match form:
        case Id():
            return form.text
        case Cited():
            return form.seq
        case dict() if depth < _DEEPEST:
            return {member: plain(value, depth + 1) for member, value in form.items()}
        case list() if depth < _DEEPEST:
            return [plain(value, depth + 1) for value in form]
    return form


_DEEPEST = 16
"""No rule is about a member that lies deeper."""
