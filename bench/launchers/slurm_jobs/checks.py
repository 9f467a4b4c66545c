"""Find mistakes before anything is submitted to Slurm."""

import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from augbench.bench.common.errors import UserError, one_of
from augbench.bench.common.user_input import user_path
from augbench.bench.planning.profile import Profile, Resources, SlurmSettings
from augbench.bench.runs.slurm_client import SlurmError, configured, read_rows, slurm

OWN_TO_A_MACHINE = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 - refused, not used


@dataclass(frozen=True)
class Node:
    """A node as a partition has it.

    Attributes:
        partition: Name of the partition.
        is_default: Whether jobs go there that name none.
        host: Name of the machine.
        cpus: CPU cores.
        memory_mb: Main memory, MB.
        gpus: GPUs.
        minutes: The partition's time limit; None for none.
    """

    partition: str
    is_default: bool
    host: str
    cpus: int
    memory_mb: int
    gpus: int
    minutes: int | None


def read_nodes(clusters: str = "") -> list[Node]:
    """Ask Slurm for every node of every partition, of this machine's cluster or of others.

    Raises:
        SlurmError: If it does not answer, or with something else.
    """
    command = ["sinfo", "--noheader", "--Node", "--format=%P|%n|%c|%m|%G|%l"]
    rows = read_rows(command, 6, clusters)
    try:
        return [_parsed(row) for row in rows]
    except ValueError as error:
        raise SlurmError(f"Slurm's `sinfo` printed what cannot be understood: {error}.") from None


def _parsed(row: list[str]) -> Node:
    partition, host, cpus, memory, generic, limit = (part.strip() for part in row)
    gpus = sum(_gpus(resource) for resource in generic.split(","))
    name, is_default = partition.rstrip("*"), partition.endswith("*")
    return Node(name, is_default, host, int(cpus.rstrip("+")), int(memory.rstrip("+")), gpus, minutes(limit))


def _gpus(resource: str) -> int:
    """Read `gpu:2`, `gpu:a100:4` or `gpu:a100:4(S:0-1)`."""
    kind, *rest = resource.partition("(")[0].split(":")
    return int(rest[-1]) if kind == "gpu" and rest and rest[-1].isdigit() else 0


def minutes(limit: str) -> int | None:
    """Read a time limit as Slurm prints it: `infinite`, `30:00`, `4:00:00`, `2-00:00:00`."""
    if not limit[:1].isdigit():
        return None
    days, _, rest = limit.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    hours = parts[-3] if len(parts) > 2 else 0
    return (int(days or 0) * 24 + hours) * 60 + (parts[-2] if len(parts) > 1 else 0)


def largest_array(clusters: str = "") -> int:
    """Ask Slurm how many jobs an array may have, on this machine's cluster or on others.

    Raises:
        SlurmError: If it does not answer.
    """
    said = configured("MaxArraySize", clusters)
    return max(1, int(said)) if said.isdigit() else 1000


def check_resources(profile: Profile, wanted: Sequence[tuple[str, Resources]]) -> None:
    """Make sure that every run fits on some node of the profile's partition.

    Args:
        profile: The profile.
        wanted: Names of methods and what their runs need.

    Raises:
        UserError: If there is no such partition, or none of its nodes has so much.
        SlurmError: If Slurm does not answer.
    """
    nodes = read_nodes(profile.slurm.clusters or "")
    if not nodes:
        raise UserError("Slurm's `sinfo` shows no partition that you may use. Nothing was submitted.")
    named = profile.slurm.partition
    names = sorted({node.partition for node in nodes})
    for part in named.split(",") if named else ():
        if part not in names:
            raise UserError(f"[slurm] partition of the profile: {one_of('partition', part, names)}")
    usable = [node for node in nodes if (node.partition in named.split(",") if named else node.is_default)]
    if not usable:
        raise UserError(f"There is no default partition here: name one in [slurm] of the profile: {', '.join(names)}.")
    where = f"the partition {named!r}" if named else f"the default partition {usable[0].partition!r}"
    for method, resources in wanted:
        for problem in _problems(resources, usable, where, profile.slurm.signal_delay_s):
            raise UserError(f"Runs of {method!r} cannot be placed: {problem} Nothing was submitted.")


def _problems(resources: Resources, nodes: Sequence[Node], where: str, signal_delay_s: int) -> Iterator[str]:
    if resources.time_minutes is None:
        yield 'Slurm needs a time limit. Write one into [resources] of the profile, such as time = "04:00:00".'
    elif 60 * resources.time_minutes <= signal_delay_s:
        yield (
            f"they are told to save signal_delay_s = {signal_delay_s} s before their time limit, which is only "
            f"{resources.time}. Give them more time, or write a smaller signal_delay_s into [slurm] of the profile."
        )
    if resources.cpus < 1:
        yield f"cpus = {resources.cpus:g}, but Slurm gives out whole ones. The launcher ray lets runs share a core."
    if resources.gpus is not None and resources.gpus != int(resources.gpus):
        yield f"gpus = {resources.gpus:g}, but Slurm gives out whole ones. The launcher ray lets runs share a GPU."
    limits = [node.minutes for node in nodes]
    if resources.time_minutes is not None and None not in limits:
        most = max(limit for limit in limits if limit is not None)
        if resources.time_minutes > most:
            yield (
                f"their time limit is {resources.time}, but {where} allows {most // 60} h {most % 60} min. Lower their "
                "limit; they save, queue again and resume."
            )
    needs: list[tuple[str, float, float, str]] = [
        ("cpus", resources.cpus, max(node.cpus for node in nodes), "CPU cores"),
        ("gpus", resources.gpus or 0, max(node.gpus for node in nodes), "GPUs"),
        ("memory_gb", resources.memory_gb or 0, max(node.memory_mb for node in nodes) / 1024, "GB of memory"),
    ]
    for key, asked, highest, unit in needs:
        if asked > highest:
            yield f"{key} = {asked:g} in the profile, but no node of {where} has more than {highest:g} {unit}."
    if not any(_fits(resources, node) for node in nodes):
        yield f"{where} has nodes with enough cpus, gpus or memory_gb, but no node with enough of all three."


def _fits(resources: Resources, node: Node) -> bool:
    memory = 1024 * (resources.memory_gb or 0)
    return resources.cpus <= node.cpus and (resources.gpus or 0) <= node.gpus and memory <= node.memory_mb


def sbatch_options(resources: Resources, settings: SlurmSettings) -> dict[str, Any]:
    """Options of sbatch for a job, by their names in submitit; those that nothing sets are left out."""
    options = {
        "time": resources.time_minutes,
        "cpus_per_task": resources.cpus,
        "mem": f"{round(1024 * resources.memory_gb)}M" if resources.memory_gb else None,
        "gpus_per_node": int(resources.gpus) if resources.gpus else None,
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "constraint": settings.constraint,
    }
    return {name: value for name, value in options.items() if value is not None}


def check_that_slurm_would_take(resources: Resources, settings: SlurmSettings) -> None:
    """Ask Slurm whether it would take a job with these resources and options, without submitting one.

    Raises:
        SlurmError: If it would not, with its reason.
    """
    asked = sbatch_options(resources, settings) | settings.options
    given = [
        f"--{name.replace('_', '-')}{'' if value is True else f'={value}'}" for name, value in asked.items() if value
    ]
    slurm(["sbatch", "--test-only", *given, "--wrap=true"], settings.clusters or "")


def check_visible(folders: Sequence[Path], profile: Profile) -> None:
    """Make sure, as far as that can be known here, that compute nodes see some folders.

    Raises:
        UserError: If one is outside the profile's shared folders or in a folder that every machine has of its own.
        SlurmError: If Slurm does not answer.
    """
    shared = [user_path(folder).resolve() for folder in profile.slurm.shared_folders]
    for folder in (folder.resolve() for folder in folders):
        if shared and not any(folder.is_relative_to(root) for root in shared):
            raise UserError(
                f"{folder} is outside the shared folders that [slurm] shared_folders of the profile lists: "
                f"{', '.join(map(str, shared))}. Choose one inside with --out or --data. Nothing was submitted."
            )
        private = next((root for root in OWN_TO_A_MACHINE if folder.is_relative_to(root)), None)
        if not shared and private and {node.host for node in read_nodes()} != {socket.gethostname().partition(".")[0]}:
            raise UserError(
                f"{folder} lies in {private}, which is local to each machine, so compute nodes would not see it. "
                "Choose a folder on a shared file system; if this one is shared, name it in [slurm] shared_folders of "
                "the profile. Nothing was submitted."
            )
