"""Commands that run a service: started, its settings, keys and prices, its backups."""
