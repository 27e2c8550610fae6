"""Learning from measurements: samples, held-out folds, training, evaluation, report.

The four verbs, in the order in which they are called::

    from perfmodel.training.samples.samples import load_samples
    from perfmodel.training.train import train
    from perfmodel.training.validation.evaluate import evaluate
    from perfmodel.training.validation.evaluation_report import write_report

    found = load_samples(ProfileStore(Path("profiles")))   # SampleSet(samples, dropped)
    folder = train(found.samples, Path("models"), name="default", seed=0)
    result = evaluate(found.samples, split="leave-family-out", seed=0)
    write_report(result, Path("docs/accuracy.md"), command="perfmodel evaluate --report ...")

``train`` returns the folder ``models/<name>/<version>``; ``evaluate`` returns an ``Evaluation``
with ``summary()`` (JSON-able) and per-predictor, per-family and per-mode scores. Both take
``members=("operators", "gbdt", "gnn")`` and ``progress``, a callable that receives one line of text
per finished fit.
"""
