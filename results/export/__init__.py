"""From a stored run to its policy as a file to use elsewhere."""

TARGETS = ("torchvision", "kornia", "albumentations", "json")
