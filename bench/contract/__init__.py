"""What a method must offer, what it is given, and the ranges of its hyperparameters."""
