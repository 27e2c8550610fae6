"""Tables of language models under parallel plans."""
