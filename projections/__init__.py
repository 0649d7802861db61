"""Pure folds from logical events to state, one projection a module."""
