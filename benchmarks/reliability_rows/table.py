"""Every promise with what measures it: those of the first list, then those that were added."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from reliability_rows.row import Found, Row
from reliability_rows.tested import by_tests


def by_module(name: str) -> Callable[[int], Found]:
    """Return what measures by a module of this room, imported when it does."""

    def measure(count: int) -> Found:
        found: Found = import_module(f"reliability_rows.{name}").measure(count)
        return found

    return measure


#: The first list.
PROMISES: tuple[Row, ...] = (
    Row(
        name="single-predictions",
        title="single predictions",
        promised=">= 3,000/s, p99 <= 10 ms, 0 errors",
        counted="seconds of each round",
        full=10,
        fast=2,
        measure=by_module("speed.single_predictions"),
        is_timed=True,
        how="one worker, 16 connections, distinct bodies; with the shipped model, and with 10,000 "
        "stored observations of 500 jobs that correct every answer",
    ),
    Row(
        name="matrix",
        title="matrix",
        promised="300 jobs x 67 placements, cold, <= 1 s",
        counted="matrices",
        full=5,
        fast=2,
        measure=by_module("speed.cold_matrix"),
        is_timed=True,
        how="jobs whose graphs are known on placements that nobody asked about, over HTTP until "
        "the last byte; the best counts",
    ),
    Row(
        name="overload",
        title="overload x4",
        promised=">= 80 % of the maximum, the rest 429 or 503 with Retry-After; health p99 <= "
        "100 ms; memory bounded",
        counted="seconds",
        full=20,
        fast=5,
        measure=by_module("speed.overloaded"),
        is_timed=True,
        how="matrices of 50 new cells at four times the pace that can be answered, whatever became "
        "of those before; health asked on both ports",
    ),
    Row(
        name="start",
        title="start",
        promised="cold to ready <= 5 s; `--help` <= 0.3 s",
        counted="starts",
        full=5,
        fast=2,
        measure=by_module("speed.cold_start"),
        is_timed=True,
        how="`perfmodel --help`, and the service with the shipped model; the best counts",
    ),
    Row(
        name="determinism",
        title="determinism",
        promised="identical bytes",
        counted="requests",
        full=10_000,
        fast=280,
        measure=by_module("answers.determinism"),
        how="seven questions over and over to a service with two workers, which is started anew "
        "half-way; one of the jobs was observed",
    ),
    Row(
        name="laws",
        title="laws",
        promised="exact or monotone; never above the roofline",
        counted="pairs of a job and a GPU",
        full=1_500,
        fast=60,
        measure=by_module("answers.laws"),
        how="the version that serves, asked about every GPU of the catalogue with its operators in "
        "another order, renamed, in growing numbers and with more memory",
    ),
    Row(
        name="killed",
        title="kill -9 under write load",
        promised="0 acknowledged observations lost, database intact",
        counted="kills",
        full=200,
        fast=10,
        measure=by_module("state.killed"),
        how="what stores observations for the service, in a process with four writing threads; one "
        "of ten kills is of a whole service under four callers",
    ),
    Row(
        name="job-phases",
        title="kill -9 in each job phase",
        promised="each job has effect exactly once",
        counted="passes over every moment",
        full=20,
        fast=1,
        limit_s=7_200.0,
        measure=by_tests("tests/campaigns/test_killed.py", "tests/retraining/test_killed.py"),
        how="workers of campaigns and of retrainings are killed before each step that leaves a "
        "trace, and another one goes on",
    ),
    Row(
        name="disk",
        title="disk full, read-only, EIO",
        promised="503 or 507, predictions go on, recovers alone",
        counted="failures",
        full=144,
        fast=6,
        measure=by_module("state.disk"),
        how="a preloaded library lets every change of a file fail from the Nth on (ENOSPC, EIO, "
        "EROFS in turn), while observations, prices and jobs are sent and known and new "
        "questions asked; then the disk works again",
    ),
    Row(
        name="database",
        title="database down, slow, restarted",
        promised="predictions unaffected, reconnect <= 5 s",
        counted="times",
        full=50,
        fast=3,
        measure=by_module("state.database"),
        how="a PostgreSQL hangs, crashes and is started again, or has its table locked, in turn, "
        "under a service that is asked and told of observations",
    ),
    Row(
        name="swaps",
        title="model swapped under load",
        promised="0 failed or mixed answers",
        counted="swaps",
        full=1_000,
        fast=10,
        measure=by_tests(
            "tests/service/versions/test_model_swap.py::"
            "test_no_answer_fails_or_is_mixed_while_versions_change"
        ),
        how="three callers ask without a pause while the version that serves is changed, and each "
        "answer is compared with that of the version it names",
    ),
    Row(
        name="damaged",
        title="damaged artefacts",
        promised="0 crashes, 0 served, the old version stays",
        counted="mutations",
        full=10_000,
        fast=100,
        measure=by_tests(
            "tests/store/test_artifacts.py",
            "tests/service/versions/test_model_swap.py::"
            "test_a_damaged_version_is_passed_over_and_named",
        ),
        how="each file of a version in turn is flipped, cut, grown, emptied, swapped or removed, "
        "and the version is loaded",
    ),
    Row(
        name="bad-model",
        title="bad new model",
        promised="refused 12 of 12",
        counted="runs",
        full=1,
        fast=1,
        limit_s=3_600.0,
        measure=by_tests("tests/retraining/test_bad_candidates.py"),
        how="twelve bad candidates as real versions go through whole retrainings; the thirteenth "
        "is sound and has to be taken",
    ),
    Row(
        name="contract",
        title="contract fuzz",
        promised="0 server errors, 0 schema violations",
        counted="cases",
        full=20_000,
        fast=300,
        limit_s=3_600.0,
        measure=by_module("answers.contract"),
        how="schemathesis on every operation of the OpenAPI document, half of the cases as "
        "described and half not, to a service over HTTP without keys",
    ),
    Row(
        name="hostile-files",
        title="hostile graphs and traces",
        promised="0 crashes; <= 2 s and <= 512 MB each",
        counted="changes of each file",
        full=270,
        fast=20,
        measure=by_tests(
            "tests/traces/formats/test_mutated_files.py",
            "tests/traces/formats/test_hostile_files.py",
            "tests/capture/test_onnx_hostile.py",
            within_s=2.0,
        ),
        is_timed=True,
        how="files of every trace format and ONNX files changed at random, and files made to take "
        "much time or memory",
    ),
    Row(
        name="authorization",
        title="authorization",
        promised="as specified, deny by default",
        counted="runs",
        full=1,
        fast=1,
        measure=by_tests("tests/service/access/test_access_routes.py"),
        how="every route with every method, without a key and with one of each scope; spellings of "
        "paths that try to get round",
    ),
    Row(
        name="poisoned",
        title="poisoned feedback",
        promised="quarantined",
        counted="runs",
        full=1,
        fast=1,
        measure=by_tests(
            "tests/service/observations/test_observations.py",
            "tests/service/observations/test_type_bounds.py",
            "tests/service/observations/test_taken_back.py::"
            "test_what_is_faster_than_its_arithmetic_counts_for_nothing_ever",
            "tests/service/feedback/test_reporters.py",
            "tests/estimator/evidence/test_strangers.py",
            "tests/service/access/test_access_limits.py",
            "tests/retraining/test_bad_candidates.py::"
            "test_a_poisoned_source_is_refused_and_left_out_by_name",
        ),
        how="steps that are faster than their arithmetic or far from what can be, reporters who "
        "lie, keys that send too much, a source of false records before the gate",
    ),
)

#: Those that came later.
ADDED: tuple[Row, ...] = (
    Row(
        name="clock",
        title="clock jumps",
        promised="0 wrong or lost answers, 0 server errors",
        counted="jumps",
        full=100,
        fast=5,
        measure=by_module("state.clock"),
        how="the same library puts the clock of the day ahead and back by a second to 20 years, "
        "while predictions, observations and later answers are asked for",
    ),
    Row(
        name="upgrade",
        title="two versions on one database",
        promised="0 wrong or lost answers, 0 server errors; each sees the other within 2 s",
        counted="observations by each",
        full=100,
        fast=3,
        measure=by_module("state.upgrade"),
        how="the code from before the newest migration runs on a database, this code is started on "
        "it and migrates; both answer and store in turn; then the old one ends and is started "
        "again, which has to be refused",
    ),
    Row(
        name="read-only",
        title="read-only disk",
        promised="503 or 507, predictions go on",
        counted="questions",
        full=200,
        fast=5,
        measure=by_module("state.read_only"),
        how="the same library makes the disk read-only under a service, and before one starts, "
        "which has to say so in one line and end",
    ),
    Row(
        name="webhook",
        title="webhook targets",
        promised="no private address unless allowed",
        counted="runs",
        full=1,
        fast=1,
        measure=by_tests("tests/service/feedback/test_alarm_webhook.py"),
        how="alarms told to names and addresses of this machine, private networks and metadata "
        "services, with and without permission, and through redirections",
    ),
    Row(
        name="restore",
        title="restore from a backup",
        promised="everything acknowledged before it is there",
        counted="runs",
        full=1,
        fast=1,
        measure=by_tests("tests/cli/test_backup.py"),
        how="a backup while observations are written, restored into a new place and served; "
        "damaged and newer archives",
    ),
)

ROWS = (*PROMISES, *ADDED)
