"""Who may ask what: keys, scopes, limits, audit."""
