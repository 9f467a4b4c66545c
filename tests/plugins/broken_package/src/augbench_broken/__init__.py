"""A package that does not work."""
