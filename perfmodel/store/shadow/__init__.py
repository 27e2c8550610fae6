"""What was asked last, and how versions answer that beside the one that serves."""
