"""Corruptions of CIFAR-10-C (Hendrycks and Dietterich, 2019), recomputed for images of any size."""
