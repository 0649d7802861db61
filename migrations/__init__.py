"""Alembic environment and revisions. A new store gets the declared tables; an older one is brought here."""
