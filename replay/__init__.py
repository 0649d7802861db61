"""A log read as if it were happening: model calls with their chunks, player, deeper verification, diff, fork."""
