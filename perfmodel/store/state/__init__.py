"""What the service keeps in the database, one store a subject."""
