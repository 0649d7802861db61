"""Whether a released dsh of format 0 opens a session that Playhead wrote, told before it is tried.

It opens a log with the right header and place whose events have the exact envelope, known types or the mark that makes
them ignorable, whole messages, and a surface that folds (``admission.py``). Relations between events are not looked
at. Source: docs/formats.md, "Strict reading".
"""

from __future__ import annotations

from collections.abc import Iterable
from ntpath import isabs as is_absolute_on_windows
from posixpath import isabs as is_absolute

from playhead.adapters.dsh.admission import Admission
from playhead.adapters.dsh.strict import strict_header
from playhead.eventstore import chunk_rows
from playhead.eventstore.errors import PlayheadError
from playhead.eventstore.format_0_types import FORMAT_0_TYPES, FROM_0_1_2_TYPES
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded

KNOWN = FORMAT_0_TYPES | FROM_0_1_2_TYPES


def refusal(header: SessionHeader, facts: Iterable[Recorded]) -> str | None:
    """Why dsh would not open the native session of these facts; None when nothing speaks against it."""
    try:
        strict_header(header.line())
    except PlayheadError as error:
        return str(error)
    if not header.id:
        return "the empty id has no folder"
    if header.cwd is not None and not (is_absolute(header.cwd) or is_absolute_on_windows(header.cwd)):
        return f"its folder {header.cwd!r} is not an absolute path"
    admission = Admission(header.version)
    for fact in facts:
        if fact.type == chunk_rows.EVENT_TYPE and fact.surface_op is None and fact.source_seqs is None:
            continue
        if fact.type not in KNOWN and not fact.ignorable:
            return f"seq {fact.seq}: the type {fact.type} is unknown to it and not marked ignorable"
        try:
            admission.admit(fact, fact.envelope())
        except PlayheadError as error:
            return str(error)
    return None
