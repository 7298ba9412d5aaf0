"""Upgrades of a store's schema, and writing of migrations.

`python -m controller.store.migrate "add what"` writes the migration from the newest schema to that
of tables.py. Import this only where it is used: alembic is slow to load.
"""

from __future__ import annotations

import sys

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine

SCRIPTS = "controller.store:migrations"


def upgrade(connection: Connection, scripts: str = SCRIPTS) -> None:
    """Apply the migrations a store lacks, inside the connection's transaction."""
    command.upgrade(configuration(connection, scripts), "head")


def revise(message: str, scripts: str = SCRIPTS) -> None:
    """Write the migration from the newest schema to that of tables.py, for review."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        upgrade(connection, scripts)
        config = configuration(connection, scripts)
        newest = ScriptDirectory.from_config(config).get_current_head() or "0"
        command.revision(config, message, autogenerate=True, rev_id=f"{int(newest) + 1:04}")
    engine.dispose()


def configuration(connection: Connection | None, scripts: str = SCRIPTS) -> Config:
    """Return alembic's configuration, without an ini file and without changes to logging."""
    config = Config()
    config.set_main_option("script_location", scripts)
    config.attributes["connection"] = connection
    return config


if __name__ == "__main__":
    revise(" ".join(sys.argv[1:]) or sys.exit("say what changes: add ..."))
