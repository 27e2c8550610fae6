"""Where a job runs: accelerators, hosts, links between them, and groups that communicate."""
