"""Where a job runs, as it is asked: the placement, its forms, links and networks by name."""
