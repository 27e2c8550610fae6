"""The arena: frozen splits, baselines, figures of merit and a report.

::

    from perfmodel.training.arena.run import run_arena
    from perfmodel.training.arena.report import write_report

    run_arena(samples, make_learner, folder=Path("build/accuracy"), seed=0, fast=True)
    write_report(Path("build/accuracy"), Path("docs/accuracy.md"), command="make bench-accuracy")

``make_learner`` takes a seed and returns an unfitted learner
(:class:`~perfmodel.training.arena.contract.Learner`). It is shown the training part of one fold
and nothing else; what it needs to choose or to calibrate it takes from there.
"""
