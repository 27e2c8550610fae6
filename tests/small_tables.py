"""Public tables of a few made-up rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

#: Networks that are captured in no time, and what they shall have taken, in images a second.
RATES = {"test_resnet": 5e4, "test_vit": 4e4, "test_efficientnet": 3e4}


def write_timm_table(
    folder: Path,
    modes: Sequence[str] = ("infer", "train"),
    batches: Sequence[int] = (32, 64),
    models: Sequence[str] = tuple(RATES),
) -> None:
    """Write a table in the form of timm's, with made-up times on two cards."""
    folder.mkdir(parents=True)
    for mode, (device, faster) in product(modes, (("3090", 1.0), ("4090", 1.8))):
        lines = [f"model,{mode}_img_size,{mode}_samples_per_sec,{mode}_batch_size"]
        for name, batch in product(models, batches):
            share = faster * batch / (batch + 32) / (1 if mode == "infer" else 3)
            lines.append(f"{name},160,{RATES[name] * share:.1f},{batch}")
        path = folder / f"benchmark-{mode}-amp-nchw-pt240-cu124-rtx{device}.csv"
        path.write_text("\n".join(lines) + "\n")
