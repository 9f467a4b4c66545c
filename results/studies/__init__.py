"""What loads data or runs networks to show something: probes, the bound of a run, the toy problem."""
