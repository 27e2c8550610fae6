"""Who answers a question, and by when."""
