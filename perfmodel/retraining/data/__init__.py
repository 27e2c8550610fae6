"""What a retraining learns from: where it lies, frozen as a snapshot, read as samples."""
