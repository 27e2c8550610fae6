"""Ranks of ``torch.distributed`` on one host: collectives by themselves, and steps of replicas."""
