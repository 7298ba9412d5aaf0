"""The store's tables. A change here needs a migration: see docs/result-format.md."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

FIRST_REVISION = "0011"
"""The first migration: the schema of the first release, 0.2.0."""
REVISION = "0015"
"""The newest migration, which these tables match; older ones sort before it."""


class AnyBytes(TypeDecorator[bytes]):
    """Bytes; a damaged value of another type is returned unchanged."""

    impl = LargeBinary
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> None:
        """Return the stored value unchanged."""


# Named, so that a migration can drop a constraint on SQLite.
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)

agents = Table(
    "agents",
    metadata,
    Column("agent_id", String, primary_key=True),
    Column("incarnation", String, nullable=False),
    Column("version", String, nullable=False),
    Column("host", String, nullable=False),
    Column("online", Boolean, nullable=False),
    Column("since", Float, nullable=False),
    Column("exporter", String),
    # Who revoked it, when and why; `draining` has the same of a drain.
    Column("revoked", JSON(none_as_null=True)),
    # Seconds by which its clock is ahead of the controller's.
    Column("clock_ahead_s", Float),
    Column("boot_id", String),
    # Checksum of the record, see sealing.py; a row without one counts as damaged.
    Column("checksum", String),
    # IP address at which other hosts of the farm reach it.
    Column("address", String),
)

devices = Table(
    "devices",
    metadata,
    Column("device_id", String, primary_key=True),
    Column("agent_id", ForeignKey(agents.c.agent_id), nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("virtual", Boolean, nullable=False),
    Column("labels", JSON, nullable=False),
    Column("facts", JSON, nullable=False),
    Column("host_cores", JSON, nullable=False),
    Column("online", Boolean, nullable=False),
    Column("since", Float, nullable=False),
    # Quarantine, bookings, failures in a row, labels set by a person.
    Column("life", JSON(none_as_null=True)),
    Column("checksum", String),
)

device_events = Table(
    "device_events",
    metadata,
    # Numbers events, so that the order of a history does not depend on the clock.
    Column("number", Integer, primary_key=True),
    Column("device_id", ForeignKey(devices.c.device_id), nullable=False, index=True),
    Column("at", Float, nullable=False),
    Column("state", String, nullable=False),
    Column("who", String, nullable=False),
    Column("why", Text, nullable=False),
    Column("checksum", String),
)

tokens = Table(
    "tokens",
    metadata,
    Column("name", String, primary_key=True),
    Column("digest", String, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float),
    # None in records from before there were scopes: a submitter's.
    Column("scope", String),
    Column("checksum", String),
)

sweeps = Table(
    "sweeps",
    metadata,
    # Numbers submissions, so that the order of the queue does not depend on the clock.
    Column("number", Integer, primary_key=True),
    Column("sweep_id", String, nullable=False, unique=True),
    Column("name", String, nullable=False, index=True),
    Column("generation", Integer, nullable=False),
    Column("submitted_at", Float, nullable=False),
    Column("document", JSON, nullable=False),
    # The user whose token submitted it.
    Column("user", String),
    # The number of its runs, so that a lost run is noticed.
    Column("runs", Integer),
    Column("checksum", String),
)

# What people say about a sweep: outside the sweep's own checksum, and of no outcome's.
sweep_annotations = Table(
    "sweep_annotations",
    metadata,
    Column("sweep_id", ForeignKey(sweeps.c.sweep_id), primary_key=True),
    Column("tags", JSON, nullable=False),
    Column("notes", JSON, nullable=False),
    # How many notes it has ever had, so that no number is given twice.
    Column("noted", Integer, nullable=False),
    Column("checksum", String),
)

# Each cell once for all its runs, since a cell can be long.
cells = Table(
    "cells",
    metadata,
    Column("cell_key", String, primary_key=True),
    Column("workload", String, nullable=False),
    Column("stack", String, nullable=False),
    Column("scenario", String, nullable=False),
    Column("knobs", JSON, nullable=False),
    Column("selector", Text, nullable=False),
    # Side B of a paired comparison.
    Column("versus", JSON(none_as_null=True)),
    Column("profiled", Boolean),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("sweep_id", ForeignKey(sweeps.c.sweep_id), nullable=False),
    Column("position", Integer, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("cell_key", ForeignKey(cells.c.cell_key), nullable=False, index=True),
    Column("deadline_s", Float, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("state", String, nullable=False, index=True),
    # Number of attempts when it was last resumed.
    Column("resumed_after", Integer),
    Column("queued_at", Float),
    Column("checksum", String),
    Index("ix_runs_queue", "sweep_id", "position"),
)

# The runs of a submission that have never been leased, in one record; see packing.py.
unleased = Table(
    "unleased",
    metadata,
    Column("sweep_id", ForeignKey(sweeps.c.sweep_id), primary_key=True),
    Column("created_at", Float, primary_key=True),
    Column("deadline_s", Float, nullable=False),
    Column("repeats", Integer, nullable=False),
    Column("cells", AnyBytes, nullable=False),
    # The states of the runs in order, run-length coded.
    Column("spans", JSON, nullable=False),
    Column("checksum", String),
)

attempts = Table(
    "attempts",
    metadata,
    Column("run_id", ForeignKey(runs.c.run_id), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("device_id", ForeignKey(devices.c.device_id), nullable=False, index=True),
    # The device's kind at the lease; a later registration may change it.
    Column("device_kind", String, nullable=False),
    Column("virtual", Boolean, nullable=False),
    Column("agent_id", ForeignKey(agents.c.agent_id), nullable=False),
    Column("incarnation", String, nullable=False),
    Column("state", String, nullable=False),
    Column("leased_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("ended_at", Float),
    Column("late", Boolean, nullable=False),
    # Whether it waits for its device to cool.
    Column("cooling", Boolean),
    Column("checksum", String),
    # The further hosts that train with it.
    Column("partners", JSON(none_as_null=True)),
)

outcomes = Table(
    "outcomes",
    metadata,
    # Numbers outcomes in the order of storing: their age.
    Column("number", Integer, primary_key=True),
    Column("run_id", String, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("counted", Boolean, nullable=False),
    Column("type", String, nullable=False),
    # Copied from run and attempt, so that one index finds the newest result of each series.
    Column("device_id", String, nullable=False),
    Column("workload", String, nullable=False),
    Column("stack", String, nullable=False),
    Column("scenario", String, nullable=False),
    Column("validity", String),
    Column("blame", String),
    Column("kind", String),
    Column("message", Text),
    Column("started_at", Float, nullable=False),
    Column("recorded_at", Float, nullable=False),
    # Fields of the outcome without a column, except its measurements.
    Column("document", JSON, nullable=False),
    Column("checksum", String),
    ForeignKeyConstraint(["run_id", "attempt"], [attempts.c.run_id, attempts.c.number]),
    # A lost attempt counts as a failure; its later report is stored beside that.
    UniqueConstraint("run_id", "attempt", "counted"),
    Index(
        "ix_outcomes_series",
        *("type", "counted", "validity", "device_id", "workload", "stack", "scenario", "number"),
    ),
    Index(
        "ix_outcomes_one_result",
        "run_id",
        unique=True,
        sqlite_where=text("counted AND type = 'result'"),
    ),
)

# What lists filter and sort outcomes by, see outcome_keys.py: copied, so without checksums, and
# without what is wide. A key may be unknown where the record that it is of is damaged.
outcome_keys = Table(
    "outcome_keys",
    metadata,
    Column("number", ForeignKey(outcomes.c.number), primary_key=True, autoincrement=False),
    Column("counted", Boolean),
    Column("type", String),
    Column("device_id", String),
    Column("cell_key", String),
    Column("sweep_id", String),
    Column("validity", String),
    Column("virtual", Boolean),
    Column("started_at", Float),
    # Not for lists by number, which look through the table itself.
    Index("ix_outcome_keys_cells", "counted", "type", "device_id", "cell_key", "number"),
)

measurements = Table(
    "measurements",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("counted", Boolean, primary_key=True),
    Column("name", String, primary_key=True),
    Column("value", Float, nullable=False),
    Column("unit", String, nullable=False),
    Column("samples", JSON, nullable=False),
    ForeignKeyConstraint(
        ["run_id", "attempt", "counted"],
        [outcomes.c.run_id, outcomes.c.attempt, outcomes.c.counted],
    ),
)
