"""Workers of a campaign on clusters: Slurm, Kubernetes, Ray."""
