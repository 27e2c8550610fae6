"""The bodies of requests and answers, as OpenAPI describes them.

Requests are read by :mod:`perfmodel.requests`, the same reader that the command line uses, so
that both refuse the same things in the same words; their models here say the same to machines, and
a test holds the two together. Models of answers are made from the dataclasses of
:mod:`perfmodel.client`.
"""
