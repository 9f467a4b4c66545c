"""From a stored run to its policy as a file to use elsewhere."""

TARGETS = ("torchvision", "kornia", "albumentations", "json")
EXPORTED = "exported"
"""Under which name every exported file says when and by what it was written."""
