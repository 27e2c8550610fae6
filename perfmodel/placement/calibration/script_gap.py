r"""How much longer steps of scripts take than predicted, before any of the job was observed.

Scripts load, log and wait, and run on frameworks other than those that predictors learned from.
Published tables of such jobs are observations of other jobs: what their posterior says of a job
that is none of them, on a kind of accelerator, is the mean residual of a script there,

.. math:: m_f(a) = E[z_f \mid \text{tables}], \qquad f \in \{\text{device}, \text{host}\},

and that of a kind which no table has is what all kinds share. Tables that log synchronisation also
tell how scripts communicate: on a kind of accelerator and over a fabric that they have, with
:math:`r` ranks on :math:`h` hosts, at most :math:`s` on one of them,

.. math:: m_\text{communication} = w_0 + w_1 \log r + w_2 \log h + w_3 \log s

each within what the tables have, and a number for the tail. All other links are left alone: what
one cluster reaches of the speed of its links says nothing of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from perfmodel.features.arrays import FloatArray, Numbers
from perfmodel.placement.calibration.step_cells import StepCells
from perfmodel.placement.calibration.step_response import Field
from perfmodel.placement.fitted import fitted
from perfmodel.placement.fitted.forms import read_constants

#: Fields that a script's step differs in before it is observed.
OF_SCRIPTS = (Field.DEVICE, Field.HOST)


@dataclass(frozen=True, kw_only=True)
class LinkGap:
    """What is believed of how scripts communicate on a kind of accelerator, over a fabric.

    Parameters
    ----------
    least, most : tuple of float
        Ranks, hosts and ranks of the fullest host that tables have; others are taken for the
        nearest of those.
    communication : tuple of float
        Mean residual, in logarithms, at the logarithms 0, and by each of them.
    tail : float
        Mean residual.
    """

    least: tuple[float, float, float]
    most: tuple[float, float, float]
    communication: tuple[float, float, float, float]
    tail: float

    def mean(
        self, ranks: Numbers, hosts: Numbers, largest_share: Numbers, of: Any = np
    ) -> dict[Field, Numbers]:
        """Return by how much residuals are expected to be larger.

        Parameters
        ----------
        of : module or type
            NumPy for columns, :class:`.PlainNumbers` for one.
        """
        longer, *slopes = self.communication
        bounds = zip((ranks, hosts, largest_share), self.least, self.most, slopes, strict=True)
        for stated, least, most, slope in bounds:
            longer = longer + slope * of.log(of.minimum(of.maximum(stated, least), most))
        return {Field.COMMUNICATION: longer, Field.TAIL: self.tail}


@dataclass(frozen=True, kw_only=True)
class ScriptGap:
    """What is believed of a script that was not observed.

    Parameters
    ----------
    usual : mapping of Field to float
        Mean residual, in logarithms, on a kind of accelerator that no table has.
    machines : mapping of str to mapping of Field to float
        On those that tables have, by the word for a machine.
    jobs : mapping of str to int
        Jobs of the tables on each of those.
    sds : mapping of Field to float
        How far single scripts lie from the mean.
    links : mapping of str to mapping of str to LinkGap
        Those of tables, by the words for a machine and a fabric.
    """

    usual: Mapping[Field, float]
    machines: Mapping[str, Mapping[Field, float]]
    jobs: Mapping[str, int]
    sds: Mapping[Field, float]
    links: Mapping[str, Mapping[str, LinkGap]] = field(default_factory=dict)

    def mean(self, cells: StepCells) -> FloatArray:
        """Return by how much the residual of steps is expected to be larger, (fields, rows)."""
        found = np.zeros((len(Field), len(cells)))
        known = [self.on(machine) for machine in cells.machine.tolist()]
        for one in OF_SCRIPTS:
            found[one] = [each[one] for each in known]
        for machine in self.links.keys() & set(cells.machine.tolist()):
            for fabric, link in self.links[machine].items():
                rows = (cells.machine == machine) & (cells.fabric == fabric)
                there = cells.ranks[rows], cells.hosts[rows], cells.largest_share[rows]
                for one, longer in link.mean(*there).items():
                    found[one, rows] = longer
        return found

    def on(self, machine: str) -> Mapping[Field, float]:
        """Return by how much residuals on a machine, by its word, are expected to be larger."""
        return self.machines.get(machine, self.usual)

    def over(self, machine: str, fabric: str) -> LinkGap | None:
        """Return what is believed of a fabric, by its word, on a machine; None where nothing is."""
        return self.links.get(machine, {}).get(fabric)

    def variance(self, before: FloatArray) -> FloatArray:
        """Return the variance of residuals of scripts, from that of any job, (fields, rows)."""
        found = before.copy()
        for one in OF_SCRIPTS:
            found[one] = self.sds[one] ** 2
        return found


@cache
def fitted_gap() -> ScriptGap:
    """Return the gap that comes with the package."""
    return read_constants(ScriptGap, fitted("scripts"))
