"""Campaigns: lists of workloads that any number of workers measure, each of them once."""
