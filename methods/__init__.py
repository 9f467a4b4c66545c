"""One file for each augmentation learner."""
