"""Inbox decisions, and the driver that runs a turn."""
