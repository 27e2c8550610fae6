"""What the replay of campaigns makes of errors, and that it runs."""

from __future__ import annotations

import campaign
import joint_world as world
import pytest


def test_a_replay_has_an_error_for_every_order_and_number_of_measurements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(campaign, "COUNTS", (1, 3))
    samples = world.samples(noise=0.0) + world.samples(("Gpu-New",), slower=1.6, noise=0.0)
    found = campaign.replay(samples, "Gpu-New", splits=2, seeds=3)
    assert [len(found.before), len(found.whole), len(found.adaptive)] == [2, 2, 2]
    assert [[len(one) for one in split] for split in found.at_random] == [[2] * 3] * 2
    # Whatever is measured first says that the device is slower.
    assert max(errors[0] for errors in found.adaptive) < min(found.before)


def test_the_fewest_measurements_for_an_error_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "COUNTS", (1, 2, 4))
    found = campaign.Replay(
        before=[0.9, 0.9],
        whole=[0.1, 0.1],
        adaptive=[[0.5, 0.2, 0.2], [0.3, 0.2, 0.08]],
        at_random=[[[0.5, 0.4, 0.1], [0.5, 0.4, 0.3]], [[0.5, 0.4, 0.1], [0.5, 0.4, 0.1]]],
    )
    # Means of the adaptive order 0.4, 0.2, 0.14; of random ones 0.5, 0.4, 0.15.
    assert found.needed() == [1, 1, 4]
    # 0.5 / 0.5, 0.2 / 0.4, 0.2 / 0.2; 0.3 / 0.5, 0.2 / 0.4, 0.08 / 0.1.
    assert found.ratios().tolist() == pytest.approx([2.5 / 3, 1.9 / 3])
