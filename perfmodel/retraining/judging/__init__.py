"""What is known of a candidate and of the version that serves, for the gate to decide."""
