"""How much faster tensor ranks answer in inference, beside FasterTransformer's table of BERT-6B.

The table has one, two and four A100 of a host. Compared is the time on several over that on one, so
that how fast its engine is does not count; ours are eager steps. The table does not state the
dimensions of the model: 48 layers of 3,200 features are six billion parameters, and a decoder with
as many stands in for an encoder. Nothing is fitted on it. Public tables come from ``--data`` or
PERFMODEL_DATA; a minute::

    python benchmarks/tensor_ranks.py
"""

from __future__ import annotations

import argparse
import os
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from perfmodel import Estimator
from perfmodel.graph.job import Job
from perfmodel.placement.topology.parse import parse_placement
from perfmodel.types import Precision

MODELS = Path(__file__).resolve().parents[1] / "models"
TABLE = "wave2/fastertransformer.parquet"
CONFIG = {
    "model_type": "nemotron", "hidden_size": 3200, "num_hidden_layers": 48,
    "num_attention_heads": 40, "num_key_value_heads": 40, "head_dim": 80,
    "intermediate_size": 12800, "vocab_size": 30528, "max_position_embeddings": 1024,
}  # fmt: skip
#: Tokens of a batch from which on no host holds a step up.
MANY = 4_096


def measured(data: Path) -> dict[tuple[int, int], dict[int, float]]:
    """Return milliseconds by batch and sequence, and by tensor ranks."""
    found: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
    for row in pq.read_table(data / TABLE).to_pylist():
        degrees = re.match(r"TP(\d+), PP1 ", row["engine"] or "")
        if "BERT-6B" in row["headings"] and degrees:
            length = int(row["other_axes"].partition("=")[2])
            found[int(row["batch"]), length][int(degrees[1])] = row["value"]
    return found


def main() -> None:
    """Ask about every batch of the table, and print both ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("PERFMODEL_DATA"))
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of tables with --data or PERFMODEL_DATA")
    estimator, off = Estimator.from_folder(MODELS), []
    for (batch, length), times in sorted(measured(Path(given.data)).items()):
        job = Job(
            hf_config=CONFIG, batch_size=batch, sequence_length=length, precision=Precision.FP16
        )
        places = [f"{n}xA100-SXM4-80GB" + f" tp={n}" * (n > 1) for n in sorted(times)]
        steps = estimator.matrix([job], [parse_placement(text) for text in places]).step_time_s[0]
        for ranks, step_s in zip(sorted(times), steps.tolist(), strict=True):
            ours, theirs = step_s / steps[0], times[ranks] / times[1]
            if ranks > 1:
                off.append((batch * length, np.log(ours / theirs)))
                print(f"{batch} x {length} tp={ranks}: {ours:.2f} of one, measured {theirs:.2f}")
    tokens, logs = np.array(off).T
    for words, rows in (("all", tokens > 0), (f"from {MANY} tokens on", tokens >= MANY)):
        mean, bias = 100 * np.abs(logs[rows]).mean(), 100 * logs[rows].mean()
        print(f"{words}: {rows.sum()} ratios, {mean:.1f} % off in the mean, bias {bias:+.1f} %")


if __name__ == "__main__":
    main()
