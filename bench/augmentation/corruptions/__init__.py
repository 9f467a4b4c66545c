"""Corruptions of CIFAR-10-C (Hendrycks and Dietterich, 2019) and CIFAR-10-C̄ (Mintun et al., 2021), recomputed."""
