"""Logs of DeepSeek Harness: readers of every released on-disk format, and the importer."""

from playhead.adapters.dsh.dialects import DIALECTS, dialect_name, seed_length

__all__ = ["DIALECTS", "dialect_name", "seed_length"]
