"""How a node network learns from whole steps: gradients of the equation in :mod:`.node_network`.

Needs torch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from perfmodel.features.arrays import FloatArray, IntArray
from perfmodel.features.steps.row_sorts import ROW_SORTS
from perfmodel.features.steps.step_table import (
    DEVICE_FACTS,
    ROW_COLUMNS,
    SETTING_COLUMNS,
    StepTable,
)
from perfmodel.predictors.network_weights import Weights
from perfmodel.predictors.step_models.effect_facts import EffectFacts, regress_effects
from perfmodel.predictors.step_models.node_entries import (
    EFFECTS,
    LAUNCH,
    PRODUCTS,
    RATE_COLUMNS,
    Entries,
    TableArrays,
    batches,
)
from perfmodel.predictors.step_models.node_network import (
    ALONE,
    CPU,
    EFFECTS_OF_SETTINGS,
    INPUT_LIMIT,
    LAUNCH_LIMITS,
    LAUNCH_S,
    WORK_LIMITS,
    NodeNetwork,
)
from perfmodel.predictors.step_models.node_settings import NodeNetSettings

_TICK_S = 1e-9
#: Logarithm of what a call of an eager framework takes before anything is learned, in LAUNCH_S.
_FIRST_CALL = math.log(16.0)
#: Constants that all hosts have in common, and at how much higher a rate they learn: each goes its
#: way alone, where a layer says the same with many weights.
_OF_HOSTS, _FASTER = ("calls", "by_setting"), 10.0
_OF_LAUNCH = torch.eye(EFFECTS)[LAUNCH]
#: Which columns of the rates tell devices apart, and how much of the blur each takes.
_BLURRED = torch.tensor([0.2, 0.2, 0.2, 0.5, 1.0, 0.0, 0.5, 0.5])


class LearningNetwork(nn.Module):
    """A :class:`NodeNetwork` with gradients; its parameters bear the names of the weights.

    Parameters
    ----------
    devices : int
        Devices with effects of their own.
    mean, scale : Tensor, shape (len(ROW_COLUMNS),)
        Of the rows that it learns from.
    """

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self, devices: int, settings: NodeNetSettings, mean: torch.Tensor, scale: torch.Tensor
    ) -> None:
        super().__init__()
        self.overlap = settings.overlap
        wide, narrow, count = settings.wide, settings.narrow, len(SETTING_COLUMNS)
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.row = nn.Linear(len(ROW_COLUMNS), wide)
        self.rate = nn.Linear(RATE_COLUMNS, wide, bias=False)
        self.setting = nn.Linear(count, wide, bias=False)
        self.fact = nn.Linear(len(DEVICE_FACTS), wide, bias=False)
        self.hidden = nn.Linear(wide, narrow)
        self.output = nn.Linear(narrow, 1)
        self.calls = nn.Parameter(torch.full((len(ROW_SORTS),), _FIRST_CALL))
        self.effect = nn.Parameter(torch.zeros(devices + 1, EFFECTS))
        self.by_setting = nn.Parameter(torch.zeros(count, EFFECTS))
        self.by_sort = nn.Parameter(torch.zeros(count + len(PRODUCTS), len(ROW_SORTS)))
        nn.init.normal_(self.output.weight, 0.0, 0.01)
        with torch.no_grad():
            self.output.bias[:] = 0.5

    def forward(self, e: Entries, device: torch.Tensor, *, blur: float = 0.0) -> torch.Tensor:
        """Return the logarithm of the time of every step of a batch.

        Parameters
        ----------
        device : Tensor of int64, shape (steps of the batch,)
        blur : float
            Standard deviation of the noise on what would give a device away (cores and caches).
            What is peculiar to a device then has to go into its effects.
        """
        step, settings, facts = map(torch.from_numpy, (e.step, e.settings, e.facts))
        rates = torch.from_numpy(e.rates)
        if blur:
            noise = blur * torch.randn(len(e.steps), RATE_COLUMNS) * _BLURRED
            rates = rates + noise.index_select(0, step)
            facts = facts + blur * torch.randn(facts.shape)
        efficiency = self._answers(e, rates, settings, facts)
        effects = self._effects(settings, device)
        products = torch.cat([settings, torch.from_numpy(e.products)], dim=1)
        efficiency = efficiency + _entries(effects, e.of_kind)
        efficiency = efficiency + _entries(products @ self.by_sort, e.of_sort)
        work = torch.from_numpy(e.roofline_s) * torch.exp(efficiency.clamp(*WORK_LIMITS))
        calls = self.calls.index_select(0, torch.from_numpy(e.of_sort % len(ROW_SORTS)))
        calls = calls + effects[:, LAUNCH].index_select(0, step)
        launch = LAUNCH_S * torch.exp(calls.clamp(*LAUNCH_LIMITS)) * torch.from_numpy(e.launches)
        count = torch.from_numpy(e.count)
        parts = ((work + torch.from_numpy(e.slow_s)) * count, launch * count)
        logs = [
            torch.zeros(len(e.steps)).index_add(0, step, one).clamp_min(_TICK_S).log()
            for one in parts
        ]
        overlap = torch.where(settings[:, CPU] > 0, 1.0, self.overlap)
        return torch.logaddexp(overlap * logs[0], overlap * logs[1]) / overlap

    def _answers(
        self, e: Entries, rates: torch.Tensor, settings: torch.Tensor, facts: torch.Tensor
    ) -> torch.Tensor:
        """Return what the layers say of each entry, shape (entries,)."""
        rows = ((torch.from_numpy(e.rows) - self.mean) / self.scale).clamp_(
            -INPUT_LIMIT, INPUT_LIMIT
        )
        whole = self.setting(settings) + self.fact(facts)
        hidden = self.row(rows).index_select(0, torch.from_numpy(e.row)) + self.rate(rates)
        hidden = hidden + whole.index_select(0, torch.from_numpy(e.step))
        answers: torch.Tensor = self.output(torch.relu(self.hidden(torch.relu(hidden))))
        return answers.squeeze(1)

    def _effects(self, settings: torch.Tensor, device: torch.Tensor) -> torch.Tensor:
        """Return the effects of device and settings, shape (steps, EFFECTS)."""
        # How fast the host of a device calls says nothing of an operator that is repeated.
        own = self.effect[device] * (1.0 - settings[:, ALONE, None] * _OF_LAUNCH)
        return own + settings @ (self.by_setting * torch.from_numpy(EFFECTS_OF_SETTINGS))


def _entries(table: torch.Tensor, places: IntArray) -> torch.Tensor:
    return table.reshape(-1).index_select(0, torch.from_numpy(places))


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """What a network learned.

    Parameters
    ----------
    devices : tuple of str
        Devices with effects of their own: those of which whole steps were learned from.
    unknown_variance : ndarray, shape (EFFECTS,)
        Of the effects of a device without records.
    """

    devices: tuple[str, ...]
    network: NodeNetwork
    unknown_variance: FloatArray


def learn(
    settings: NodeNetSettings,
    table: StepTable,
    log_times: FloatArray,
    weights: FloatArray,
    steps: IntArray,
) -> Learned:
    """Learn from some steps of a table, as :meth:`.node_net.NodeNet.fit` says."""
    torch.manual_seed(settings.seed)
    whole = {table.devices[i] for i in steps[~table.alone[steps]]}
    others = {table.devices[i] for i in steps} - whole
    devices = (*sorted(whole), *sorted(others))
    network = LearningNetwork(len(devices), settings, *_statistics(table, steps))
    code = {name: i for i, name in enumerate(devices)}
    device = torch.tensor([code.get(name, len(devices)) for name in table.devices])
    _train(network, settings, table, device, log_times, weights, steps)
    kept = {name: one.detach().numpy() for name, one in network.state_dict().items()}
    fitted = _effects_of_facts(table, steps, devices, kept["effect"][:-1])
    # What operators alone say of a device goes into the regression, and no further.
    kept["effect"] = np.concatenate([kept["effect"][: len(whole)], kept["effect"][-1:]])
    kept["typical_effect"] = fitted.typical.astype(np.float32)
    kept["by_fact"] = fitted.by_fact.astype(np.float32)
    return Learned(
        devices=devices[: len(whole)],
        network=NodeNetwork.of(
            kept,
            devices=len(whole),
            wide=settings.wide,
            narrow=settings.narrow,
            overlap=settings.overlap,
        ),
        unknown_variance=fitted.variance,
    )


def _statistics(table: StepTable, steps: IntArray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and scale of the rows of some steps."""
    used = np.zeros(len(table.sketches), dtype=np.bool_)
    used[table.sketch_of[steps]] = True
    chosen = torch.from_numpy(np.flatnonzero(np.repeat(used, table.length)))
    rows = torch.from_numpy(table.rows).index_select(0, chosen)
    deviation, mean = torch.std_mean(rows, dim=0, correction=0)
    return mean, deviation + 1e-3


def _train(
    network: LearningNetwork,
    settings: NodeNetSettings,
    table: StepTable,
    device: torch.Tensor,
    log_times: FloatArray,
    weights: FloatArray,
    steps: IntArray,
) -> None:
    rng = np.random.default_rng(settings.seed)
    arrays = TableArrays.of(table)
    target = torch.from_numpy(log_times.astype(np.float32))
    weight = torch.from_numpy(weights.astype(np.float32))
    sketches = len(table.sketches)
    size = len(batches(table.sketch_of, steps, settings.batch_size, np.arange(sketches))) + 2
    optimizer, schedule = _optimizer(network, settings, size * settings.epochs)
    for _ in range(settings.epochs):
        plan = batches(table.sketch_of, steps, settings.batch_size, rng.permutation(sketches))
        for batch in plan[:size]:
            own = torch.from_numpy(batch.steps)
            found = network(Entries.of(arrays, batch), device[own], blur=settings.blur)
            optimizer.zero_grad()
            loss = _loss(network, settings, found - target[own], weight[own])
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()


def _loss(
    network: LearningNetwork, settings: NodeNetSettings, error: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    tolerance = settings.tolerance
    robust = nn.functional.huber_loss(
        error, torch.zeros_like(error), reduction="none", delta=tolerance
    )
    fit = (weight * robust).sum() / weight.sum() / tolerance
    of_hosts = (network.calls - network.calls.mean()).square().sum()
    of_hosts = of_hosts + network.by_setting.square().sum()
    return (
        fit + settings.shrinkage * (network.effect**2).mean() + settings.host_shrinkage * of_hosts
    )


def _optimizer(
    network: LearningNetwork, settings: NodeNetSettings, updates: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    rates = {False: settings.learning_rate, True: _FASTER * settings.learning_rate}
    groups = [
        {"params": [p for n, p in network.named_parameters() if (n in _OF_HOSTS) is of_hosts]}
        for of_hosts in rates
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=1e-4, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [*rates.values()], total_steps=updates + 1, pct_start=0.15
    )
    return optimizer, schedule


def _effects_of_facts(
    table: StepTable, steps: IntArray, devices: Sequence[str], effects: Weights
) -> EffectFacts:
    """Regress the effects of the devices on their facts, for devices never seen."""
    names = np.array(table.devices)[steps]
    first = [int(steps[np.flatnonzero(names == name)[0]]) for name in devices]
    tells = np.ones((len(steps), EFFECTS), dtype=np.bool_)
    tells[:, LAUNCH] = ~table.alone[steps]
    records = np.array([tells[names == name].sum(axis=0) for name in devices])
    facts = table.facts[first].astype(np.float64)
    return regress_effects(facts, effects.astype(np.float64), records)
