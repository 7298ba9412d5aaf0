"""alembic's environment for migrations: they use the connection that store.migrate passes."""

from __future__ import annotations

from alembic import context

from controller.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite can't alter a column in place
)
with context.begin_transaction():
    context.run_migrations()
