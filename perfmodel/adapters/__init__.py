"""What schedulers import: questions to the service, and their own formats out of its answers.

Nothing here needs more than numpy, and most of it only the standard library. Every adapter lets
its scheduler go on without an answer: see :class:`~perfmodel.adapters.ask.NoAnswerError`, which
a table of answers raises where nothing at all is answered.

Exporters of tables take what their scheduler has ``observed``, in its own terms: it comes back as
it is, and the rest is answered in the light of it (:mod:`.measured`).

In all of them ``answers`` is the service or an estimator, ``job`` a job as the service takes it,
whose batch size is replaced where batch sizes are given; ``per_host`` are the accelerators of a
host, and ``network`` is what lies between hosts. Where a batch size is replaced, or a job stands
beside another, it is written out and no reference to a registered one.
"""
