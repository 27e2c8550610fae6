"""What schedulers import: questions to the service, and their own formats out of its answers.

Nothing here needs more than numpy, and most of it only the standard library. Every adapter lets
its scheduler go on without an answer: see :class:`~perfmodel.adapters.ask.NoAnswerError`.
"""
