"""A package that brings a method and a network into augbench."""
