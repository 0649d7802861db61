"""Runs revisions on a connection that the caller opened (``config.attributes["connection"]``)."""

from alembic import context

from playhead.eventstore.sql import schema


def run() -> None:
    """Bring the store on the caller's connection to the wanted revision, in the caller's transaction."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=schema.metadata,
        render_as_batch=True,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
