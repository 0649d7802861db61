"""What a reader found wrong or remarkable, and where.

A finding is a value, not an exception: reading goes on. *Damage* means that something is lost or
contradicts itself; a *note* is worth a word and no more.

Kinds, damage: ``torn-tail`` ``torn-frame`` ``bad-frame`` ``bad-magic`` ``skippable-frame``
``bad-json`` ``bad-row`` ``bad-envelope`` ``blank-line`` ``invalid-utf8`` ``two-records-on-one-line``
``seq-gap`` ``branch`` ``orphan-rows`` ``bad-database`` ``changed-in-store``. Notes: ``bom`` ``crlf``
``extra-header-field`` ``header-frame`` ``other-folder`` ``other-version``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["damage", "note"]

CHANGED = "changed-in-store"
"""The kind of a finding about what a store no longer holds as it was put there; any other came with the log."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing found at one place.

    ``line`` is the physical line in the file (the header is line 1); ``byte`` the offset at which it
    begins: in the decoded log for lines, in the file for frames. ``size_bytes`` is the extent where one
    is known, ``seq`` the number concerned.
    """

    kind: str
    message: str
    line: int | None = None
    byte: int | None = None
    seq: int | None = None
    size_bytes: int | None = None
    severity: Severity = "damage"


def damage(findings: tuple[Finding, ...] | list[Finding]) -> list[Finding]:
    """The findings that mean loss or contradiction, notes left out."""
    return [finding for finding in findings if finding.severity == "damage"]
