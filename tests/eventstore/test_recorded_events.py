"""The events that real runtimes wrote, all formats, fit the vocabulary and come back as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard
from reference import shared_path

from playhead.eventstore import json_text
from playhead.eventstore.registry import Event, event_types


def recorded(log: Path) -> Iterator[tuple[str, Any]]:
    """Type and data of every whole event in a log file, as far as the file can be read."""
    text = log.read_bytes()
    if log.suffix == ".zstd":
        try:
            text = zstandard.ZstdDecompressor().stream_reader(text, read_across_frames=True).read()
        except zstandard.ZstdError:
            return
    for line in text.split(b"\n")[1:]:
        try:
            event = json_text.parse(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "seq" in event and "data" in event:
            yield event["type"], event["data"]


def test_every_recorded_event_is_read_and_given_back() -> None:
    read = 0
    for log in sorted(shared_path("corpus/dsh").rglob("session*.jsonl*")):
        damaged_on_purpose = any(part.startswith("edited-") for part in log.parts)
        for tag, data in recorded(log):
            event = event_types.decode(tag, data)
            assert isinstance(event, Event) or damaged_on_purpose, (log, event)
            assert event.to_json() == data, (log, tag)
            read += 1
    assert read > 10_000
