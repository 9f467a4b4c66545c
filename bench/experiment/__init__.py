"""What is to be run, in full: protocol, budget, suite, and the specification of a run with its identity."""
