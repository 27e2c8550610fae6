"""What is believed of a job whose caller says whether it is a script.

The statement says which population of jobs the observed steps come from, and where nothing was
observed which of the two answers; it changes neither the graph nor whose observations count.
"""

from __future__ import annotations

from functools import cache

from perfmodel.graph.job import Job
from perfmodel.placement.calibration.correcting.unobserved_script import (
    UnobservedScript,
    typical_script,
)
from perfmodel.placement.calibration.residual_prior import ResidualPrior, fitted_prior


def prior_of(job: Job) -> ResidualPrior:
    """Return what is believed of a job's residual before it is observed.

    Of one that says nothing the two populations compete: what was observed decides.
    """
    if job.script is None:
        return fitted_prior()
    return _of_scripts().prior if job.script else _of_bare_steps()


def unobserved_script(job: Job) -> UnobservedScript | None:
    """Return what lengthens the unobserved steps of a script; None for all other jobs."""
    return _of_scripts() if job.script else None


def said_of_script(script: UnobservedScript, machine: str) -> str:
    """Say what the longer step on a machine rests on."""
    jobs = script.gap.jobs.get(machine, 0)
    there = f"those of {jobs} published jobs on {machine}" if jobs else "those of published jobs"
    where = "" if jobs else f"; none of them ran on {machine}"
    return (
        "Nothing was observed of the job, which is said to be a script: its step is taken to be as "
        f"much longer than predicted as {there} are{where}."
    )


@cache
def _of_scripts() -> UnobservedScript:
    return typical_script()


@cache
def _of_bare_steps() -> ResidualPrior:
    return fitted_prior().of_bare_steps
