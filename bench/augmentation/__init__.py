"""The spaces of transforms, and what their transforms do to images."""
