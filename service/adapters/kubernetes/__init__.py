"""Kubernetes: the scheduler extender, Volcano's dialect of it, and the admission webhook."""
