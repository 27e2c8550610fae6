"""What every question needs: jobs prepared, placements looked up, predictions, and their caches."""
