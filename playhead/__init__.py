"""Playhead: an event-sourced store for AI-agent sessions, with replay tooling."""
