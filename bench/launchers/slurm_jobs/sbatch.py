"""Submitting to Slurm through submitit, with no doubt about which job was made."""

import re
from pathlib import Path
from typing import Any

from submitit import SlurmExecutor, SlurmJob
from submitit.core.utils import DelayedSubmission, JobPaths

from augbench.bench.common.errors import shortened
from augbench.bench.runs.slurm_client import SlurmError, read_rows

ANSWER = re.compile(r"(?:Submitted batch job )?(?P<job>\d+)(?:(?:;| on cluster )(?P<cluster>\S+))?")
SECONDS_TO_SUBMIT = 120


class ArrayExecutor(SlurmExecutor):
    """Submits one job, or one array of jobs.

    Args:
        folder: Where jobs find what they need, and print to.
        clusters: Clusters that may take the jobs, as `--clusters` has them; empty for the one of this machine.
        settings: Further arguments of submitit's executor.

    Attributes:
        cluster: The cluster that has taken them, as far as that is known; empty for the one of this machine.
    """

    def __init__(self, folder: Path, clusters: str = "", **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.cluster = clusters

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        where = [f"--clusters={self.cluster}"] if self.cluster else []
        # a controller that does not answer has sbatch wait for ever
        return ["timeout", str(SECONDS_TO_SUBMIT), "sbatch", "--parsable", *where, str(submission_file_path)]

    def _get_job_id_from_submission_command(self, string: bytes | str) -> str:  # type: ignore[override]
        text = string if isinstance(string, str) else string.decode(errors="replace")
        job, self.cluster = job_in(text, self.parameters["job_name"], self.cluster)
        return job

    def _internal_process_submissions(self, delayed_submissions: list[DelayedSubmission]) -> list[Any]:
        """Submit an array as submitit does, which would make an executor of its own for it."""
        if len(delayed_submissions) == 1:
            return list(super()._internal_process_submissions(delayed_submissions))
        folder = JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        pickles = [folder / f"{index}.pkl" for index in range(len(delayed_submissions))]
        for delayed, path in zip(delayed_submissions, pickles, strict=True):
            delayed.set_timeout(self.parameters["time"], self.max_num_timeout)
            delayed.dump(path)
        self.parameters["map_count"] = len(delayed_submissions)
        first = self._submit_command(self._submitit_command_str)
        tasks = list(range(first.num_tasks))
        jobs: list[Any] = [SlurmJob(self.folder, f"{first.job_id}_{index}", tasks) for index in range(len(pickles))]
        for job, path in zip(jobs, pickles, strict=True):
            job.paths.move_temporary_file(path, "submitted_pickle")
        return jobs


def job_in(answer: str, name: str, clusters: str) -> tuple[str, str]:
    """Tell which job was made, and on which cluster: the one with its name in the queue, else the one in the answer.

    A site's sbatch may print more than the answer, with numbers in it; a wrong one would be somebody's job.

    Args:
        answer: What sbatch has printed.
        name: Name of the job, which no other one has.
        clusters: Clusters that it may be on; empty for the one of this machine.

    Raises:
        SlurmError: If neither says it.
    """
    lines = [found for line in answer.splitlines() if (found := ANSWER.fullmatch(line.strip()))]
    cluster = lines[-1]["cluster"] or clusters if lines else clusters
    command = ["squeue", "--noheader", "--states=all", "--format=%F|%j", f"--name={name}"]
    try:
        known = {job for job, called in read_rows(command, 2, cluster) if called == name}
    except SlurmError:
        known = set()
    if len(known) == 1:
        return known.pop(), cluster
    if lines and not known:
        return lines[-1]["job"], cluster
    raise SlurmError(f"sbatch printed {shortened(repr(answer))}, which does not tell which job was made.")
