"""``python -m playhead`` is the command ``playhead``."""

from playhead.cli.main import main

if __name__ == "__main__":
    main()
