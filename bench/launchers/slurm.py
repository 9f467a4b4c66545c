"""Places runs on a Slurm cluster: job arrays, submitted by submitit; returns as soon as they are in the queue."""

import io
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augbench.bench.common.errors import UserError
from augbench.bench.launchers.launcher import Activity, Launcher, LaunchRequest
from augbench.bench.launchers.slurm_jobs.arrays import RunArray, make_arrays
from augbench.bench.launchers.slurm_jobs.checks import (
    check_resources,
    check_that_slurm_would_take,
    check_visible,
    largest_array,
    sbatch_options,
)
from augbench.bench.launchers.slurm_jobs.following import FollowingJob, jobs_of
from augbench.bench.launchers.slurm_jobs.job import RunJob
from augbench.bench.launchers.slurm_jobs.site import with_defaults_of_site
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.planning.profile import Profile, Resources
from augbench.bench.registry.plugins import plugin_files
from augbench.bench.registry.registry import register
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.run_states import RunStates
from augbench.bench.runs.slurm_client import SlurmError
from augbench.bench.runs.slurm_queue import cancel_named, waiting_followers
from augbench.bench.runs.submissions import Submission, new_submission, read_submission, read_submissions, submitting
from augbench.bench.training.provenance import fingerprint, given_command

if TYPE_CHECKING:  # submitit is an extra
    from augbench.bench.launchers.slurm_jobs.sbatch import ArrayExecutor

PLACED_ALREADY = (RunState.DONE, RunState.RUNNING, RunState.SUBMITTED, RunState.UNKNOWN)  # the last: perhaps
MEMORY_OF_A_FOLLOWER = 4.0  # GB
MINUTES_OF_A_FOLLOWER = 30
MOST_TIME_OUTS = 1_000_000  # submitit's own count, which ours replaces


@register("slurm")
class Slurm(Launcher):
    """Job arrays of a Slurm cluster, one or a few for each set of resources."""

    title = "Slurm: job arrays; runs are warned before their time limit, save, queue again and resume"
    waits = False

    def check(self, runs: Sequence[PlannedRun], request: LaunchRequest) -> None:
        """Find what Slurm would refuse, or what would fail on every node."""
        _import_submitit()
        profile = at_site(request.profile)
        names = dict.fromkeys(run.spec.method.name for run in runs)
        check_resources(profile, [(name, profile.resources_for(name)) for name in names])
        data = request.settings.data
        check_visible([request.out, data] if data.exists() else [request.out], profile)

    def describe(self, runs: Sequence[PlannedRun], request: LaunchRequest) -> list[str]:
        """Say which arrays would be submitted, with what resources."""
        profile = at_site(request.profile)
        groups: dict[str, list[RunArray]] = {}
        for array in make_arrays(runs, request.profile, _size(request)):
            groups.setdefault(_words(array.resources), []).append(array)
        with _no_outer_job():
            for arrays in groups.values():
                check_that_slurm_would_take(arrays[0].resources, profile.slurm)
        where = f"partition {profile.slurm.partition}" if profile.slurm.partition else "the default partition"
        per_job = f", {profile.slurm.runs_per_job} in a job" if profile.slurm.runs_per_job > 1 else ""
        return [
            f"{_counted(arrays)}{per_job}, in {where}: {words}. Slurm would take them."
            for words, arrays in groups.items()
        ]

    def launch(self, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]) -> None:
        """Submit the runs; what is refused is recorded, and the rest is submitted all the same."""
        note = f"Another launcher is submitting runs of {request.out}; waiting until it is done."
        with submitting(request.out, lambda: poll(Activity((), (), (note,)))):
            _forget_half_submitted(request.out)
            states = RunStates(request.out)
            # another launcher may have submitted some since the plan was made
            left = [run for run in runs if states.of(run.folder).state not in PLACED_ALREADY]
            launch, code = secrets.token_hex(4), fingerprint()
            jobs: list[str | None] = []
            for array in make_arrays(left, request.profile, _size(request)):
                # where an array is refused, those that would follow it follow the one before
                before = None if array.follows is None else jobs[array.follows]
                jobs.append(_submit(array, request, launch, code, before) or before)
        poll(Activity((), ()))

    def follow_up(self, command: Sequence[str], runs: Sequence[RunFolder], request: LaunchRequest) -> str:
        """Submit a small job that waits for those of the runs; one that waits already is replaced if it lacks some."""
        with submitting(request.out):
            after = jobs_of(runs, request.out)
            if not after:
                return ""
            for follower in waiting_followers(read_submissions(request.out)):
                if follower.arguments["follows"] == list(command):
                    if set(after) <= set(follower.arguments["after"]):
                        return f"Job {follower.job} places the final runs when the trials have ended."
                    cancel_named(follower)
            return _submit_follower(command, after, request)


def _submit_follower(command: Sequence[str], after: Sequence[str], request: LaunchRequest) -> str:
    resources = _of_follower(request.profile.resources)
    arguments = {"follows": list(command), "after": list(after), "plugins": os.pathsep.join(map(str, plugin_files()))}
    submission = _recorded(request, [], resources, arguments, fingerprint())
    executor = _executor(submission, resources, 1, request, after)
    error = _hand_over(submission, executor, FollowingJob(str(submission.folder)), 1)
    if error:
        return (
            f"Slurm did not take the job that would place the final runs when the trials have ended: {error} Give the "
            "same command again then."
        )
    return f"Job {read_submission(submission.folder).job} places the final runs when the trials have ended."


def _of_follower(run: Resources) -> Resources:
    """What the small job needs: no more than a run."""
    memory = None if run.memory_gb is None else min(run.memory_gb, MEMORY_OF_A_FOLLOWER)
    is_short = run.time_minutes is not None and run.time_minutes < MINUTES_OF_A_FOLLOWER
    return Resources(memory_gb=memory, time=run.time if is_short else f"00:{MINUTES_OF_A_FOLLOWER}:00")


def _counted(arrays: Sequence[RunArray]) -> str:
    runs = sum(len(array.runs) for array in arrays)
    most = sum(array.max_parallel for array in arrays if array.follows is None)
    where = "a job array" if len(arrays) == 1 else f"{len(arrays)} job arrays"
    return f"{runs} in {where}, at most {most} at a time"


def _size(request: LaunchRequest) -> int:
    return min(request.profile.slurm.array_size, largest_array(at_site(request.profile).slurm.clusters or ""))


def at_site(profile: Profile) -> Profile:
    """Fill what a profile leaves open from what this site, or user, has set for all of Slurm's commands."""
    return profile.model_copy(update={"slurm": with_defaults_of_site(profile.slurm)})


def _words(resources: Resources) -> str:
    parts = [f"{resources.cpus} CPU cores"]
    if resources.gpus:
        parts.append(f"{resources.gpus:g} GPUs")
    if resources.memory_gb:
        parts.append(f"{resources.memory_gb:g} GB")
    return ", ".join([*parts, f"time limit {resources.time}"])


def _forget_half_submitted(out: Path) -> None:
    """Take jobs out of the queue whose launcher died before it knew their ids: they may lack what they need to run."""
    for submission in read_submissions(out):
        if submission.job is None and not submission.error:
            cancel_named(submission)
            submission.model_copy(update={"error": "The launcher died while it submitted the job."}).write()


def _submit(
    array: RunArray, request: LaunchRequest, launch: str, code: dict[str, Any], before: str | None
) -> str | None:
    """Submit an array, to begin when another one has ended; returns its id, or None if it was refused."""
    device = request.settings.device
    arguments = {
        "device": device if device != "auto" else "cuda" if array.resources.gpus else "cpu",
        "data": str(request.settings.data.resolve()),
        "plugins": os.pathsep.join(map(str, plugin_files())),
        "launch": launch,  # which arrays belong together
        "restarts": request.profile.slurm.max_requeues,
        "fail_fast": request.fail_fast,
        "allow_changed_code": request.allow_changed_code,
    }
    runs = [run.folder.path.name for run in array.runs]
    submission = _recorded(request, runs, array.resources, arguments, code)
    executor = _executor(submission, array.resources, array.max_parallel, request, [before] if before else [])
    _hand_over(submission, executor, RunJob(str(submission.folder)), submission.jobs)
    return read_submission(submission.folder).job


def _recorded(
    request: LaunchRequest, runs: Sequence[str], resources: Resources, arguments: dict[str, Any], code: dict[str, Any]
) -> Submission:
    """Write the record of what is about to be submitted."""
    settings = at_site(request.profile).slurm
    submission = new_submission(
        Slurm.name,
        request.out,
        runs,
        resources=resources.model_dump(),
        arguments=arguments,
        code=code,
        command=given_command(),
        cluster=settings.clusters or "",
        runs_per_job=settings.runs_per_job,
    )
    submission.write()
    return submission


def _hand_over(submission: Submission, executor: "ArrayExecutor", function: Any, jobs: int) -> str:
    """Submit jobs, and write into the record which they are; returns why there are none, or nothing."""
    errors = _import_submitit().core.utils
    try:
        with _no_outer_job(), redirect_stderr(io.StringIO()):  # sbatch's words are in the exception, too
            made = executor.map_array(function, range(jobs))
        update = {"job": made[0].job_id.partition("_")[0], "cluster": executor.cluster}
    except (errors.FailedJobError, errors.FailedSubmissionError, SlurmError, OSError) as error:
        cancel_named(submission)  # what is there without all that it needs to run
        words = " ".join(str(error).split()) or type(error).__name__
        if "status 124" in words:  # that of `timeout`
            words = "sbatch gave no answer in time; Slurm's controller may be down (`sinfo` shows)."
        update = {"error": words}
    submission.model_copy(update=update).write()
    return update.get("error", "")


def _executor(
    submission: Submission, resources: Resources, max_parallel: int, request: LaunchRequest, before: Sequence[str]
) -> "ArrayExecutor":
    from augbench.bench.launchers.slurm_jobs.sbatch import ArrayExecutor

    settings = at_site(request.profile).slurm
    executor = ArrayExecutor(
        submission.folder / "jobs",
        settings.clusters or "",
        python=f"{shlex.quote(sys.executable)} -P",  # -P keeps the folder of the command off the module path
        max_num_timeout=MOST_TIME_OUTS,
    )
    given = {name: value for name, value in settings.options.items() if value is not False}
    if before:  # begin when those have ended, and when the profile says
        conditions = (settings.options.get("dependency"), f"afterany:{':'.join(before)}")
        given["dependency"] = ",".join(str(one) for one in conditions if one)
    executor.update_parameters(
        job_name=submission.job_name,
        array_parallelism=max_parallel,
        signal_delay_s=settings.signal_delay_s,
        stderr_to_stdout=True,
        srun_args=[f"--cpus-per-task={resources.cpus}"],  # srun does not take it from sbatch in every version
        setup=list(settings.setup),
        additional_parameters={"requeue": True, **given},
        **sbatch_options(resources, settings),
    )
    return executor


@contextmanager
def _no_outer_job() -> Iterator[None]:
    """Hide what a job, in which this command was perhaps given, would pass on to those that it submits."""
    configuration = os.environ.get("SLURM_CONF")
    with _import_submitit().helpers.clean_env():
        if configuration is not None:
            os.environ["SLURM_CONF"] = configuration
        yield


def _import_submitit() -> Any:
    try:
        import submitit
    except ImportError as error:
        raise UserError(
            f"The launcher slurm needs the library submitit ({error}). Install it with `pip install 'augbench[slurm]'` "
            "in the virtual environment that compute nodes see, then give the same command again."
        ) from None
    return submitit
