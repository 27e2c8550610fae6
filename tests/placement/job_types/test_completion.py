import itertools

import numpy as np
import pytest
from work_done import calls_of

from perfmodel.devices.catalog import Catalog
from perfmodel.errors import DamagedArtifactError, InvalidInputError
from perfmodel.placement.job_types.cell_covariance import covariance, own_variance, variance_names
from perfmodel.placement.job_types.completion import JobTypePrior, JobTypeTable, nearest_labels
from perfmodel.placement.job_types.job_type_cells import JobTypeCells, job_type_cells
from perfmodel.placement.topology.topology import Neighbour, Node, Placement
from perfmodel.types import Basis

_DEVICES = ("K80", "T4", "V100-SXM2-16GB", "A100-SXM4-40GB")


def cells(*rows: tuple[str, int, str, int, int], beside: str = "") -> JobTypeCells:
    """Name, batch size, accelerator, accelerators of a host, hosts."""
    return job_type_cells(
        [(name, batch) for name, batch, *_ in rows],
        [
            Placement(
                nodes=(Node(accelerator=device, count=count, repeat=hosts),),
                shared_with=(Neighbour(job_type=beside),) if beside else (),
            )
            for _, _, device, count, hosts in rows
        ],
        catalog=Catalog.default(),
    )


def invented(jobs: int = 6) -> tuple[JobTypeCells, np.ndarray]:
    """A table whose times are a job's level x a device's pace x a toll for crossing hosts."""
    rows, times = [], []
    paces = dict(zip(_DEVICES, (8.0, 3.0, 1.0, 0.5), strict=True))
    for job, (device, pace) in itertools.product(range(jobs), paces.items()):
        for count, hosts, toll in ((1, 1, 1.0), (4, 1, 1.2), (1, 4, 2.0)):
            rows.append((f"job{job}", 8, device, count, hosts))
            times.append(0.1 * (job + 1) * pace * toll)
    return cells(*rows), np.array(times)


def test_covariance_is_one_of_random_variables() -> None:
    table, _ = invented(3)
    shared = cells(("job0", 8, "K80", 1, 1), ("job1", 8, "T4", 1, 1), beside="job2 (batch size 8)")
    variances = dict.fromkeys(variance_names(), 0.1)
    for one in (table, shared):
        matrix = covariance(one, one, variances)
        assert np.allclose(matrix, matrix.T)
        assert np.linalg.eigvalsh(matrix).min() > 0
        assert np.allclose(np.diag(matrix), own_variance(one, variances))


def test_one_effect_by_hand() -> None:
    # Prior: mean 0, one variance 1 for the level of a name, noise 1. One cell measured e^0.8:
    # its posterior mean is 0.8 x 1 / (1 + 1) = 0.4 for every cell of that name.
    prior = JobTypePrior(
        mean=np.zeros(7),
        variances={"name.one": 1.0},
        noise_variance=1.0,
        quantiles=dict.fromkeys(("cell", "job_many", "job_few", "name", "none"), 1.0),
    )
    known, asked = cells(("a", 8, "K80", 1, 1)), cells(("a", 8, "T4", 4, 1), ("b", 8, "T4", 4, 1))
    answer = JobTypeTable(known, [np.exp(0.8)], prior).complete(asked)
    assert np.log(answer.median_s) == pytest.approx([0.4, 0.0])
    # Variances 1 - 1/2 + 1 and 1 + 1, scaled by (10 + 0.8^2 / 2) / (10 + 1).
    scale = (10 + 0.32) / 11
    widths = np.log(answer.high_s / answer.median_s)
    assert widths == pytest.approx(np.sqrt([1.5 * scale, 2 * scale]))


def test_a_measured_cell_is_answered_by_its_measurements() -> None:
    known = cells(*[("a", 8, "K80", 1, 1)] * 4)
    answer = JobTypeTable(known, [0.98, 1.0, 1.0, 1.02]).complete(cells(("a", 8, "K80", 1, 1)))
    assert answer.median_s[0] == pytest.approx(1.0, rel=0.02)
    assert answer.basis == (Basis.MEASURED,)


def test_more_cells_of_a_job_answer_better() -> None:
    table, times = invented()
    own = np.flatnonzero(table.job_type == "job5")
    rest = np.flatnonzero(table.job_type != "job5")
    asked = own[6:]
    errors, widths = [], []
    for count in (0, 1, 6):
        seen = np.r_[rest, own[:count]]
        answer = JobTypeTable(table.take(seen), times[seen]).complete(table.take(asked))
        errors.append(np.abs(np.log(answer.median_s / times[asked])).mean())
        widths.append(np.log(answer.high_s / answer.low_s).mean())
    assert errors[0] > errors[1] and errors[2] < 0.15
    assert widths[0] > widths[1] > widths[2]


def test_other_jobs_say_what_a_device_does() -> None:
    table, times = invented()
    one = cells(("new", 8, "V100-SXM2-16GB", 1, 1))
    asked = cells(("new", 8, "K80", 1, 4))
    # Level 1 on the V100; the K80 takes 8 times as long, four hosts twice that: 16.
    alone = JobTypeTable(one, [1.0]).complete(asked).median_s[0]
    known = JobTypeCells(
        **{
            word: np.concatenate([getattr(table, word), getattr(one, word)])
            for word in JobTypeCells.__slots__
        }
    )
    among = JobTypeTable(known, [*times, 1.0]).complete(asked).median_s[0]
    assert abs(np.log(among / 16)) < abs(np.log(alone / 16))
    # Jobs are believed to differ in how they take to devices, so that 16 is not reached.
    assert among == pytest.approx(16, rel=0.35)


def test_basis_follows_the_evidence() -> None:
    known = cells(("a", 8, "K80", 1, 1))
    asked = cells(
        ("a", 8, "K80", 1, 1), ("a", 8, "K80", 2, 1), ("a", 8, "T4", 1, 1), ("b", 8, "K80", 1, 1)
    )
    table = JobTypeTable(known, [1.0])
    answer = table.complete(asked)
    assert answer.basis == (
        Basis.MEASURED, Basis.INTERPOLATED, Basis.EXTRAPOLATED, Basis.DEFAULT,
    )  # fmt: skip
    assert nearest_labels(table, answer, 1) == ["a, batch 8, on 1 x K80"]


def test_nothing_known_is_answered_very_widely() -> None:
    answer = JobTypeTable(cells(), []).complete(cells(("a", 8, "K80", 1, 1)))
    assert answer.high_s[0] / answer.low_s[0] > 50
    assert answer.nearest.tolist() == [[-1, -1, -1]]


def test_company_slows() -> None:
    known = cells(("a", 8, "K80", 1, 1))
    answer = JobTypeTable(known, [1.0]).complete(cells(("a", 8, "K80", 1, 1), beside="b"))
    assert answer.median_s[0] > 1.0


def test_order_of_known_cells_does_not_matter() -> None:
    table, times = invented(3)
    asked = cells(("job0", 16, "K80", 2, 1))
    back = np.arange(len(times))[::-1]
    first = JobTypeTable(table, times).complete(asked)
    second = JobTypeTable(table.take(back), times[back]).complete(asked)
    assert first.median_s == pytest.approx(second.median_s)


def test_many_known_cells_are_cut_to_those_that_matter() -> None:
    table, times = invented(80)  # 80 jobs x 12 cells
    answer = JobTypeTable(table, times).complete(table.take(np.array([5])))
    assert answer.basis == (Basis.MEASURED,)


def test_the_work_of_a_matrix_grows_with_its_cells() -> None:
    table, times = invented(20)  # 240 known cells

    def calls(jobs: int) -> float:
        asked = cells(
            *[(f"job{job}", 8, device, count, 1)
              for job in range(jobs) for device in _DEVICES for count in range(1, 17)]
        )  # fmt: skip
        return calls_of(lambda: JobTypeTable(table, times).complete(asked))

    assert calls(300) < 11 * calls(30)


@pytest.mark.parametrize("bad", [[0.0], [float("nan")], [1.0, 2.0]])
def test_nonsense_times_are_refused(bad: list[float]) -> None:
    with pytest.raises(InvalidInputError):
        JobTypeTable(cells(("a", 8, "K80", 1, 1)), bad)


def test_damaged_constants_are_refused() -> None:
    with pytest.raises(DamagedArtifactError, match="fit-placement"):
        JobTypePrior.from_constants({"mean": {}})
