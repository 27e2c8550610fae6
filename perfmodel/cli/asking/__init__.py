"""Commands that ask what throughput a job will reach, and why."""
