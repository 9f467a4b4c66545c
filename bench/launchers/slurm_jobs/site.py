"""What a site, or a user, sets for all of Slurm's commands: variables that stand in for what a profile leaves open."""

import os
from collections.abc import Mapping

from augbench.bench.planning.profile import SlurmSettings

DEFAULTS = {
    "account": ("SBATCH_ACCOUNT",),
    "partition": ("SBATCH_PARTITION",),
    "qos": ("SBATCH_QOS",),
    "constraint": ("SBATCH_CONSTRAINT",),
    "clusters": ("SBATCH_CLUSTERS", "SLURM_CLUSTERS"),
}


def with_defaults_of_site(settings: SlurmSettings, environment: Mapping[str, str] = os.environ) -> SlurmSettings:
    """Fill what a profile leaves open from the variables that sbatch would take it from.

    The submission itself sees none of them: a surrounding job sets others like them, and they outweigh a profile.
    """
    options = dict(settings.options)
    given = {"clusters": str(options.pop("clusters"))} if "clusters" in options else {}
    for name, variables in DEFAULTS.items():
        if getattr(settings, name) is None and name not in given:
            found = [environment[variable] for variable in variables if environment.get(variable)]
            given |= {name: found[0]} if found else {}
    return settings.model_copy(update={"options": options, **given})
