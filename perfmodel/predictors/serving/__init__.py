"""A trained artefact, loaded and ready to answer."""
