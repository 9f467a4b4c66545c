"""How long tests wait for what other processes do, before they call it a failure."""

# Seconds. Far longer than anything takes, on a busy machine too; whoever is done earlier does not wait.
PATIENCE = 900.0
