"""The database: connections, schema and what all its stores share."""
