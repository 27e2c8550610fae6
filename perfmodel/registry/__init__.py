"""Versions of trained models behind one store: what each is, which serves, and who said so."""
