"""What a job may say of its training beside batch, precision and optimizer."""
