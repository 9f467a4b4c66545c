"""Looking for a method's best hyperparameters on the validation split, as hard for every method."""
