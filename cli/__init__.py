"""The command line: one module per command; ``app.py`` is the frame, ``main.py`` the way in."""
