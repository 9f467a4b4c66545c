"""One file for each predictor: how a network becomes class probabilities, whichever the method that augments."""
