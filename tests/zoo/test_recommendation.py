from __future__ import annotations

import pytest
import torch
from graph_totals import totals

from perfmodel.capture.program import make_program
from perfmodel.graph.job import Job
from perfmodel.types import Mode, Precision
from perfmodel.zoo import capture_job
from perfmodel.zoo.references.reference import build_reference


@pytest.mark.parametrize("layers", [1, 3])
def test_autoencoder_parameters(layers: int) -> None:
    # In and out of the narrow layer, then a pair of square layers for each further one.
    by_hand = 20108 * 200 + 200 + 200 * 20108 + 20108 + 2 * (layers - 1) * (200 * 200 + 200)
    bundle = build_reference("recommender-autoencoder", {"num_layers": layers}, batch_size=2)
    assert bundle.parameter_count == by_hand
    assert layers > 1 or by_hand == 8_063_508


def test_autoencoder_scores_every_item() -> None:
    bundle = build_reference("recommender-autoencoder", {"num_items": 50}, batch_size=3)
    assert bundle.module(*bundle.args).shape == (3, 50)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.AMP_FP16])
@pytest.mark.parametrize("mode", [Mode.INFERENCE, Mode.TRAINING])
@pytest.mark.parametrize("name", ["recommender-autoencoder", "ncf"])
def test_every_operator_has_a_price(name: str, mode: Mode, precision: Precision) -> None:
    job = Job(model=f"zoo/{name}", mode=mode, batch_size=2, precision=precision, optimizer="adam")
    assert not totals(capture_job(job)).unpriced


def test_autoencoder_learns() -> None:
    sizes = {"num_items": 40, "hidden_size": 8}
    bundle = build_reference("recommender-autoencoder", sizes, batch_size=4, device="cpu")
    program = make_program(
        bundle.module, bundle.args, mode=Mode.TRAINING, loss=bundle.loss, optimizer="adam"
    )
    torch.manual_seed(0)
    losses = [float(program.step()) for _ in range(40)]
    assert sum(losses[-5:]) < sum(losses[:5])


def test_dlrm_has_a_vector_for_each_published_word() -> None:
    bundle = build_reference("dlrm", batch_size=2)
    # Tables, both perceptrons: 13-512-256-128 and 479-1024-1024-512-256-1.
    below = 13 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128
    above = 480 * 1024 + 1025 * 1024 + 1025 * 512 + 513 * 256 + 257
    assert bundle.parameter_count == 187_767_399 * 128 + below + above
    assert bundle.module(*bundle.args).shape == (2,)


def test_dlrm_multiplies_every_pair_of_vectors() -> None:
    job = Job(model="zoo/dlrm", batch_size=64, mode=Mode.INFERENCE, precision=Precision.FP32)
    graph = capture_job(job)
    # 27 x 27 products of 128 numbers beside the perceptrons, twice an addition.
    below = 13 * 512 + 512 * 256 + 256 * 128
    above = 479 * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    matrix = 2 * 64 * (27 * 27 * 128 + below + above)
    assert totals(graph).flops == pytest.approx(matrix, rel=0.01)
