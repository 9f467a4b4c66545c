"""A profile: how runs are placed on your machines. Read from TOML; never part of a run's identity."""

import re
from datetime import time
from importlib import resources
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from augbench.bench.common.toml_files import STANDARD_INPUT, built_in_texts, find_text, parse_toml
from augbench.bench.experiment.catalogues import methods
from augbench.bench.experiment.spec import validated

TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d)")
DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
PROFILE_VARIABLE = "AUGBENCH_PROFILE"
RENAMED = {"at_a_time": "max_parallel", "restarts": "max_requeues", "warning_seconds": "signal_delay_s"}
"""Keys of `[slurm]` by the names that they had in augbench 0.1."""
OWN_OPTIONS = ("array", "error", "job-name", "open-mode", "output", "signal", "wait")  # of sbatch


def _read_time(value: object) -> object:
    """Also accept a time without quotes, which TOML reads as a time of day."""
    return value.strftime("%H:%M:%S") if isinstance(value, time) else value


def _checked_time(text: str | None) -> str | None:
    if text is not None and not TIME.fullmatch(text):
        raise ValueError('must be "hours:minutes:seconds" or "days-hours:minutes:seconds", such as "04:00:00"')
    return text


def _left_to_the_launcher(options: dict[str, str | int | bool]) -> dict[str, str | int | bool]:
    for name in options:
        if name.replace("_", "-") in OWN_OPTIONS:
            raise ValueError(f"{name} cannot be given: the launcher sets it to find jobs, runs and logs")
    return options


def _known_device(name: str) -> str:
    if not DEVICE.fullmatch(name):
        raise ValueError("must be auto, cpu, cuda or cuda:N, with N from 0")
    return name


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Resources(_Strict):
    """What one run needs.

    Attributes:
        cpus: CPU cores, and threads of the run. With Ray, a fraction below 1 lets several runs share a core.
        gpus: GPUs; a fraction lets runs share one if the launcher supports it. None requests none in particular.
        memory_gb: Main memory in GB; None leaves it to the cluster.
        time: Time limit, `[days-]hours:minutes[:seconds]`; None for none.
    """

    cpus: Annotated[int, Field(ge=1, le=4096)] | Annotated[float, Field(gt=0, lt=1)] = 1
    gpus: float | None = Field(None, ge=0, le=64)
    memory_gb: float | None = Field(None, gt=0)
    time: Annotated[str | None, BeforeValidator(_read_time), AfterValidator(_checked_time)] = None

    @property
    def threads(self) -> int:
        """Threads of the run: one if it has a fraction of a core."""
        return max(1, int(self.cpus))

    @property
    def time_minutes(self) -> int | None:
        """Time limit in minutes, rounded up; None for none."""
        if self.time is None:
            return None
        found = TIME.fullmatch(self.time)
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0, 0)
        return (days * 24 + hours) * 60 + minutes + (seconds > 0)


class Confirm(_Strict):
    """Limits above which `augbench run` asks before it starts.

    Attributes:
        hours: Estimated device hours.
        runs: Runs of unknown cost.
    """

    hours: float = Field(24.0, ge=0)
    runs: int = Field(200, ge=0)


class LocalSettings(_Strict):
    """How runs are placed on this machine.

    Attributes:
        workers: Runs at the same time; None for one per GPU or core.
        device: A torch device or `auto`; more workers than GPUs share them.
    """

    workers: int | None = Field(None, ge=1, le=4096)
    device: Annotated[str, AfterValidator(_known_device)] = "auto"


class SlurmSettings(_Strict):
    """How runs are placed by Slurm.

    Attributes:
        clusters: Clusters that may take the jobs, if there are several; None for this machine's.
        partition: Partition; None for the cluster's default, as with the next three.
        account: Account to charge.
        qos: Quality of service.
        constraint: Features of nodes.
        array_size: Most runs in one job array; at most the cluster's MaxArraySize.
        max_parallel: Most runs of one launch executed at the same time.
        runs_per_job: Runs that a job executes one after the other, in one process. The time limit applies to all of
            them together; when it is reached, the job requeues and continues with the rest.
        signal_delay_s: Seconds before its time limit at which a run is told to save and requeue.
        max_requeues: How often a run requeues by itself.
        setup: Shell lines before the run, such as `module load cuda`.
        options: Further options of sbatch, by their long names.
        shared_folders: Folders visible from every node; if given, output and data must be inside them.
    """

    clusters: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    array_size: int = Field(500, ge=1)
    max_parallel: int = Field(50, ge=1)
    runs_per_job: int = Field(1, ge=1, le=1000)
    signal_delay_s: int = Field(120, ge=1, le=65535)
    max_requeues: int = Field(50, ge=0)
    setup: tuple[str, ...] = Field((), strict=False)
    options: Annotated[dict[str, str | int | bool], AfterValidator(_left_to_the_launcher)] = {}
    shared_folders: tuple[str, ...] = Field((), strict=False)
    _old_names: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _take_old_names(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        given = tuple(name for name in RENAMED if isinstance(values, dict) and name in values)
        for name in given:
            if RENAMED[name] in values:
                raise ValueError(f"{name} is the old name of {RENAMED[name]}, which is also given; delete {name}")
        try:
            made = handler({RENAMED.get(name, name): value for name, value in values.items()} if given else values)
        except ValidationError as error:
            wrong = {problem["loc"][0]: problem for problem in error.errors() if problem["loc"]}
            for name in given:
                if problem := wrong.get(RENAMED[name]):
                    raise ValueError(f"{name}: {problem['msg']} (given: {problem['input']!r})") from None
            raise
        made._old_names = given
        return made

    def notes(self) -> list[str]:
        """Say which keys have a new name, one sentence for each."""
        return [f"The profile's [slurm] {name} is now called {RENAMED[name]}." for name in self._old_names]


class RaySettings(_Strict):
    """How runs are placed by Ray.

    Attributes:
        address: A running cluster, such as `auto` or `host:6379`; None starts one here and stops it at the end.
        cpus: Cores of a cluster started here; None for those of this process.
        gpus: GPUs of a cluster started here; None for all visible ones.
        failures: How often a run is placed again after its worker or node has died.
    """

    address: str | None = None
    cpus: int | None = Field(None, ge=1)
    gpus: int | None = Field(None, ge=0)
    failures: int = Field(3, ge=0)


class Profile(_Strict):
    """How and with what runs are placed.

    Attributes:
        launcher: Name of the launcher.
        resources: What each run needs.
        methods: Overrides of `resources`, by method.
        confirm: When to ask before the start.
        local: Settings of the launcher `local`.
        slurm: Settings of the launcher `slurm`.
        ray: Settings of the launcher `ray`.
    """

    launcher: str = "local"
    resources: Resources = Resources()
    methods: dict[str, dict[str, Any]] = {}
    confirm: Confirm = Confirm()
    local: LocalSettings = LocalSettings()
    slurm: SlurmSettings = SlurmSettings()
    ray: RaySettings = RaySettings()
    _standard_input: str = PrivateAttr("")

    @property
    def standard_input(self) -> str:
        """The TOML that it was read from, if that was standard input, which cannot be read again; else empty."""
        return self._standard_input

    @model_validator(mode="after")
    def _known_methods(self) -> "Profile":
        for name in self.methods:
            methods().get(name)
            self.resources_for(name)
        fractions = [one.cpus for one in (self.resources, *map(self.resources_for, self.methods)) if one.cpus < 1]
        if fractions and self.launcher != "ray":
            raise ValueError(f"cpus = {fractions[0]:g}: only the launcher ray gives out a fraction of a core")
        return self

    def resources_for(self, method: str) -> Resources:
        """Return what a run of a method needs.

        Raises:
            UserError: If the overrides for the method are wrong.
        """
        own = self.methods.get(method)
        if not own:
            return self.resources
        return validated(Resources, self.resources.model_dump() | own, f"[methods.{method}]")


def built_in_profiles() -> dict[str, str]:
    """Texts of the profiles in `slurm/profiles`, by name."""
    return built_in_texts(resources.files("augbench.slurm") / "profiles")


def load_profile(name_or_path: str | None) -> Profile:
    """Load a profile by its name in `slurm/profiles` or the path of a TOML file; None gives the defaults.

    Raises:
        UserError: If there is none, it is no TOML, or a key or value is wrong.
    """
    if name_or_path is None:
        return Profile()
    text, where = find_text("profile", name_or_path, built_in_profiles())
    profile = parse_profile(text, where)
    if name_or_path == STANDARD_INPUT:
        profile._standard_input = text
    return profile


def parse_profile(text: str, where: str) -> Profile:
    """Read a profile from TOML text.

    Raises:
        UserError: If it is no TOML, or a key or value is wrong.
    """
    return validated(Profile, parse_toml(text, where, "augbench list profiles example"), where, text)
