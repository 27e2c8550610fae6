"""Every table of the database, as the newest migration leaves it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

METADATA = MetaData()

#: SQLite numbers rows by itself only where the key is a plain INTEGER.
RowNumber = BigInteger().with_variant(Integer(), "sqlite")


def _leased(name_length: int = 64) -> list[Column[Any]]:
    """Return what :class:`.leases.LeasedStore` needs of a table."""
    return [
        Column("id", RowNumber, primary_key=True, autoincrement=True),
        Column("name", String(name_length), nullable=False, unique=True),
        Column("state", String(16), nullable=False),
        Column("owner", String(64), nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("lease_until", Double, nullable=False),
        Column("updated_at", String(32), nullable=False),
    ]


#: One graph as canonical JSON, deflated.
GRAPHS = Table(
    "graphs",
    METADATA,
    Column("hash", String(64), primary_key=True),
    Column("canonical", LargeBinary, nullable=False),
    Column("created_at", String(32), nullable=False),
)

#: What answers need of a graph, worked out once for all processes. ``version`` is that of the code
#: that did; what another one left is worked out again and replaced.
GRAPH_FACTS = Table(
    "graph_facts",
    METADATA,
    Column("hash", String(64), primary_key=True),
    Column("version", String(64), nullable=False),
    Column("content", LargeBinary, nullable=False),
)

#: What a client registered: how the graph was captured, and what there is to say of it without
#: reading it. Graphs that were registered before facts were kept have none; those of before owners
#: were kept are nobody's.
REGISTRATIONS = Table(
    "registrations",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("hash", String(64), nullable=False, unique=True),
    Column("mode", String(16), nullable=False),
    Column("batch_size", Integer, nullable=False),
    Column("tokens_per_sample", Integer),
    Column("node_count", Integer),
    Column("parameter_count", BigInteger),
    Column("flops", Double),
    Column("source", Text),
    Column("created_at", String(32), nullable=False),
    Column("owner", String(64)),
)

#: Jobs that were captured here, under a key that holds the versions of what captured them.
CAPTURES = Table(
    "captures",
    METADATA,
    Column("key", String(64), primary_key=True),
    Column("hash", String(64), nullable=False),
    Column("tokens_per_sample", Integer),
    Column("created_at", String(32), nullable=False),
)

#: Registered jobs as JSON, under the hash of their content. Jobs of one family are the same but
#: for their batch, and share what was observed of them.
JOBS = Table(
    "jobs",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("ref", String(64), nullable=False, unique=True),
    Column("family", String(64), nullable=False, index=True),
    Column("content", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
)

#: Which keys registered a job, or a graph after the first that did, under the hash of its content;
#: the same one may be that of many.
OWNERS = Table(
    "job_owners",
    METADATA,
    Column("owner", String(64), primary_key=True),
    Column("ref", String(64), primary_key=True),
    Column("created_at", String(32), nullable=False),
)

#: What ran out of memory has an infinite time; no other is as long.
RAN_OUT_BEYOND_S = "1e300"

#: Measured steps. ``revision`` is that of the transaction which brought them; ``reason`` says why
#: one is quarantined, ``reporter`` who sent it (empty where that was not written down),
#: ``software`` the versions it was measured with, as JSON, where they were stated beside the job.
OBSERVATIONS = Table(
    "observations",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("family", String(64), nullable=False),
    Column("key", String(200), nullable=False),
    Column("content_hash", String(64), nullable=False),
    Column("job_ref", String(64), nullable=False, index=True),
    Column("placement", Text, nullable=False),
    Column("batch_size", Integer, nullable=False),
    Column("accumulation_steps", Integer, nullable=False),
    Column("step_time_s", Double, nullable=False),
    Column("sync_time_s", Double),
    Column("state", String(16), nullable=False),
    Column("reason", Text),
    Column("revision", BigInteger, nullable=False, index=True),
    Column("received_at", String(32), nullable=False, index=True),
    Column("reporter", String(64), nullable=False, server_default=""),
    Column("software", Text),
    Column("expires_at", String(32), index=True),
    UniqueConstraint("family", "reporter", "key", name="uq_observations_family_reporter_key"),
    Index("ix_observations_family_reporter_state_id", "family", "reporter", "state", "id"),
    Index("ix_observations_reporter_state_id", "reporter", "state", "id"),
    # Few rows among many: of a family and a reporter they would have to be searched for.
    Index(
        "ix_observations_ran_out",
        "family",
        "reporter",
        "state",
        "id",
        sqlite_where=text(f"step_time_s > {RAN_OUT_BEYOND_S}"),
        postgresql_where=text(f"step_time_s > {RAN_OUT_BEYOND_S}"),
    ),
)

#: An accepted observation beside what was answered before it counted: ``predicted_s`` with its
#: interval, what was observed until then included; ``model_s`` by the version that served then
#: alone, and ``now_s`` by ``now_version``. ``reason`` says why there is no prediction.
RESIDUALS = Table(
    "residuals",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("observation", BigInteger, nullable=False, unique=True),
    Column("accelerator", String(200), nullable=False),
    Column("software", Text, nullable=False),
    Column("mode", String(16), nullable=False),
    Column("operators", String(32), nullable=False),
    Column("label", String(300), nullable=False),
    Column("model_version", String(200), nullable=False),
    Column("predicted_s", Double),
    Column("low_s", Double),
    Column("high_s", Double),
    Column("model_s", Double),
    Column("now_version", String(200), nullable=False),
    Column("now_s", Double),
    Column("reason", Text),
    Column("compared_at", String(32), nullable=False),
)

#: What residuals are alarming about: one group of them, from one observation on. ``remedies`` and
#: ``doubts`` are JSON: what to do, and which jobs on which accelerators are doubted; ``told`` is
#: the last state of it that a webhook was sent.
ALARMS = Table(
    "alarms",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("value", String(300), nullable=False),
    Column("state", String(16), nullable=False),
    Column("shift", Double, nullable=False),
    Column("count", Integer, nullable=False),
    Column("since_observation", BigInteger, nullable=False),
    Column("opened_observation", BigInteger, nullable=False),
    Column("since", String(32), nullable=False),
    Column("opened_at", String(32), nullable=False),
    Column("ended_at", String(32)),
    Column("ended_because", Text),
    Column("acknowledged_by", String(64)),
    Column("acknowledged_at", String(32)),
    Column("note", Text),
    Column("also", Text, nullable=False),
    Column("remedies", Text, nullable=False),
    Column("doubts", Text, nullable=False),
    Column("told", String(16)),
    Index("ix_alarms_state_id", "state", "id"),
)

#: One row: who compares observations and looks for drift, of all processes on the database.
DRIFT_KEEPERS = Table(
    "drift_keepers",
    METADATA,
    *_leased(),
)

#: What an hour of one accelerator costs, as the operator of the service says.
PRICES = Table(
    "prices",
    METADATA,
    Column("accelerator", String(200), primary_key=True),
    Column("per_hour", Double, nullable=False),
    Column("currency", String(8), nullable=False),
    Column("updated_at", String(32), nullable=False),
)

#: Requests that are answered later. ``owner`` is the process that took it in, then the one that
#: works on it; past ``lease_until`` (POSIX seconds of the database) anybody may take it over.
OPERATIONS = Table(
    "operations",
    METADATA,
    *_leased(),
    Column("kind", String(64), nullable=False),
    Column("caller", String(64), nullable=False),
    Column("request", LargeBinary),
    Column("status", Integer),
    Column("result", LargeBinary),
    Column("problem", Text),
    Column("created_at", String(32), nullable=False),
    Index("ix_operations_state_id", "state", "id"),
)

#: Lists of workloads to measure. ``policy`` is how, as JSON; ``spent_s`` what measuring has taken
#: so far, references included; ``state`` is open or cancelled, the rest follows from the tasks.
CAMPAIGNS = Table(
    "campaigns",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("title", String(200), nullable=False),
    Column("state", String(16), nullable=False),
    Column("policy", Text, nullable=False),
    Column("budget_s", Double),
    Column("spent_s", Double, nullable=False),
    Column("caller", String(64), nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
)

#: One workload of a campaign for one accelerator or kind of them. ``turn`` is its place in the
#: order in which they are begun. Of a finished one: what was measured where, as JSON in
#: ``outcome``; whether the reference was measured on the machine afterwards; and why it is noisy
#: although its samples do not say so.
CAMPAIGN_TASKS = Table(
    "campaign_tasks",
    METADATA,
    *_leased(),
    Column("campaign", String(64), nullable=False),
    Column("accelerator", String(200), nullable=False),
    Column("job", Text, nullable=False),
    Column("turn", Double, nullable=False),
    Column("machine", String(300)),
    Column("elapsed_s", Double),
    Column("outcome", Text),
    Column("reason", Text),
    Column("checked", Boolean, nullable=False),
    Column("doubt", Text),
    Column("created_at", String(32), nullable=False),
    Index("ix_campaign_tasks_campaign_state_turn", "campaign", "state", "turn"),
    Index("ix_campaign_tasks_state_turn", "state", "turn"),
)

#: The reference workload of a campaign, measured again and again on each machine. ``drift`` is how
#: much longer its step took than the first time there, as a share; none for the first.
CAMPAIGN_REFERENCES = Table(
    "campaign_references",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("campaign", String(64), nullable=False),
    Column("machine", String(300), nullable=False),
    Column("step_time_s", Double, nullable=False),
    Column("drift", Double),
    Column("good", Boolean, nullable=False),
    Column("measured_at", String(32), nullable=False),
    Index("ix_campaign_references_campaign_machine_id", "campaign", "machine", "id"),
)

#: Questions that were answered last: one job on one placement each, as they were written. The
#: highest number was asked last.
ASKED_QUESTIONS = Table(
    "asked_questions",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("key", String(64), nullable=False, unique=True),
    Column("content", Text, nullable=False),
    Column("size_bytes", Integer, nullable=False),
    Column("asked_at", String(32), nullable=False),
)

#: Versions that answer beside the one that serves, and who lets them.
SHADOW_RUNS = Table(
    "shadow_runs",
    METADATA,
    *_leased(200),
    Column("problem", Text),
    Column("created_at", String(32), nullable=False),
)

#: A question as two versions answer it. Step times are those without what was observed of the job,
#: none where a version fails or has nothing else to go by; ``answered_ratio`` is ln of the step
#: time of the shadow over that of the other with what was observed. ``placement`` is as it was
#: asked and ``named_placement`` by the names of the catalogue.
SHADOW_ANSWERS = Table(
    "shadow_answers",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("model", String(200), nullable=False),
    Column("against", String(200), nullable=False),
    Column("question", String(64), nullable=False),
    Column("label", String(200), nullable=False),
    Column("device", String(200), nullable=False),
    Column("mode", String(16), nullable=False),
    Column("family", String(64), nullable=False),
    Column("placement_kind", String(32), nullable=False),
    Column("job_family", String(64), nullable=False),
    Column("batch_size", Integer, nullable=False),
    Column("accumulation_steps", Integer, nullable=False),
    Column("placement", Text, nullable=False),
    Column("named_placement", Text, nullable=False),
    Column("serving_s", Double),
    Column("shadow_s", Double),
    Column("answered_ratio", Double),
    Column("serving_problem", Text),
    Column("shadow_problem", Text),
    Column("compared_at", String(32), nullable=False),
    UniqueConstraint("model", "against", "question", name="uq_shadow_answers_question"),
)

#: Models that are learned anew. ``settings`` is how, as JSON; ``decision`` what the gate said of
#: ``version``. The index lets one retraining of a model be open at a time.
RETRAININGS = Table(
    "retrainings",
    METADATA,
    *_leased(),
    Column("model", String(200), nullable=False),
    Column("trigger", String(16), nullable=False),
    Column("why", Text, nullable=False),
    Column("caller", String(200), nullable=False),
    Column("settings", Text, nullable=False),
    Column("phase", String(32), nullable=False),
    Column("progress", Text, nullable=False),
    Column("fraction", Double, nullable=False),
    Column("version", String(200)),
    Column("decision", Text),
    Column("reason", Text),
    Column("created_at", String(32), nullable=False),
    Index("ix_retrainings_state_id", "state", "id"),
    Index("ix_retrainings_model_id", "model", "id"),
    Index(
        "uq_retrainings_open_model",
        "model",
        unique=True,
        sqlite_where=text("state IN ('waiting', 'running')"),
        postgresql_where=text("state IN ('waiting', 'running')"),
    ),
)

#: What retrainings say while they run.
RETRAINING_LINES = Table(
    "retraining_lines",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("retraining", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("at", String(32), nullable=False),
    Index("ix_retraining_lines_retraining_id", "retraining", "id"),
)

#: When the last retraining of a model was entered (POSIX seconds of the database), and how far
#: what starts the next one was then: the newest observation, campaign tasks with records, the
#: newest alarm. ``due_at`` is the next time that ``cron`` states; empty and 0 without any.
RETRAINING_MARKS = Table(
    "retraining_marks",
    METADATA,
    Column("model", String(200), primary_key=True),
    Column("entered_at", Double, nullable=False),
    Column("observation", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("alarm", BigInteger, nullable=False),
    Column("cron", String(200), nullable=False),
    Column("due_at", Double, nullable=False),
)

#: What happened in each search for settings, one JSON object an entry, without gaps from 0.
TUNING_JOURNALS = Table(
    "tuning_journals",
    METADATA,
    Column("study", String(64), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    Column("created_at", String(32), nullable=False),
)

#: Accelerators that the operator of the service describes, as JSON.
ACCELERATORS = Table(
    "accelerators",
    METADATA,
    Column("name", String(200), primary_key=True),
    Column("content", Text, nullable=False),
    Column("updated_at", String(32), nullable=False),
)

#: Names that the operator of the service gives to accelerators.
ALIASES = Table(
    "aliases",
    METADATA,
    Column("alias", String(200), primary_key=True),
    Column("accelerator", String(200), nullable=False, index=True),
    Column("updated_at", String(32), nullable=False),
)

#: What is kept of the keys of callers.
KEYS = Table(
    "keys",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("key_id", String(32), nullable=False, unique=True),
    Column("name", String(64), nullable=False),
    Column("digest", String(64), nullable=False, unique=True),
    Column("scopes", String(200), nullable=False),
    Column("rate_per_s", Double),
    Column("created_at", String(32), nullable=False),
    Column("revoked_at", String(32)),
)

#: What administrators did, one JSON object each; rows are added and never changed.
AUDIT = Table(
    "audit",
    METADATA,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("content", Text, nullable=False),
)

#: How often something was changed; who keeps a copy of it in memory looks here whether it is old.
REVISIONS = Table(
    "revisions",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
