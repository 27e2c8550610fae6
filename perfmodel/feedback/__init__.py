"""What observed steps say of answers: residuals, where they drift, why, and what to do."""
