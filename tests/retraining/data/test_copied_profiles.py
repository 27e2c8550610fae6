"""Records of several folders as one: sources, campaigns, the newest of a workload."""

from __future__ import annotations

from pathlib import Path

from retraining_world import FEW, times, write_profiles

from perfmodel.retraining.data.copied_profiles import among, copy_profiles, records_digest
from perfmodel.store.profiles import ProfileStore
from perfmodel.store.retraining.observed_data import CampaignRecord


def test_records_are_known_by_folder_device_and_campaign(tmp_path: Path) -> None:
    first = write_profiles(tmp_path / "one", FEW[:4])
    second = write_profiles(tmp_path / "two", FEW[4:8], measured_at="2026-03-01T00:00:00Z")
    measured = ProfileStore(second).steps()[0]
    campaign = CampaignRecord(
        campaign="c1", accelerator=measured.accelerator, workload_hash=measured.workload_hash,
        measured_at=measured.provenance.measured_at, folder=str(second),
    )  # fmt: skip
    copied = copy_profiles([first, second], tmp_path / "run" / "profiles", [campaign])
    counts = {source: len(records) for source, records in copied.records.items()}
    assert counts == {"campaigns/c1": 1, "one/made-up-cpu": 4, "two/made-up-cpu": 3}
    chosen = among([[measured.accelerator, measured.workload_hash]])
    assert [chosen(one) for one in copied.records["campaigns/c1"]] == [True]
    assert not any(chosen(one) for one in copied.records["one/made-up-cpu"])


def test_the_newest_record_of_a_workload_counts_unless_it_is_left_out(tmp_path: Path) -> None:
    old = write_profiles(tmp_path / "old", FEW[:4])
    new = write_profiles(tmp_path / "new", times(FEW[:2], 3.0), measured_at="2026-03-01T00:00:00Z")
    both = copy_profiles([old, new], tmp_path / "a" / "profiles", [])
    assert {source: len(found) for source, found in both.records.items()} == {
        "new/made-up-cpu": 2, "old/made-up-cpu": 2,
    }  # fmt: skip
    without = copy_profiles([old, new], tmp_path / "b" / "profiles", [], ["new"])
    assert {source: len(found) for source, found in without.records.items()} == {
        "old/made-up-cpu": 4
    }
    assert without.left_out == {"new/made-up-cpu": 2}
    alone = ProfileStore(old).steps()
    assert records_digest(without.records["old/made-up-cpu"]) == records_digest(alone[::-1])


def test_journals_of_two_folders_with_the_same_workload_are_both_copied(tmp_path: Path) -> None:
    from retraining_world import measurement_of

    for name, factor, measured_at in (("one", 1.0, "2026-01-01"), ("two", 2.0, "2026-02-01")):
        (slower,) = times(FEW[:1], factor)
        measurement = measurement_of(slower, measured_at=f"{measured_at}T00:00:00Z")
        ProfileStore(tmp_path / name).append(measurement, slower.workload.graph)
    copied = copy_profiles([tmp_path / "one", tmp_path / "two"], tmp_path / "r" / "profiles", [])
    (record,) = copied.records["two/made-up-cpu"]
    assert record.step_time_s == 2.0 * FEW[0].step_time_s
