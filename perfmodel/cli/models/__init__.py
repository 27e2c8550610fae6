"""Commands that say which trained version serves, and keep it true."""
