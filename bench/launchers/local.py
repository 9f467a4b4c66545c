"""Places runs on this machine, a few at a time, each worker in a process of its own."""

import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from augbench.bench.environment import COMMAND_VARIABLE, available_devices
from augbench.bench.errors import UserError
from augbench.bench.launchers.launcher import Activity, Launcher, Placement
from augbench.bench.registry import register
from augbench.bench.run_folder import RunFolder, RunState

POLL_SECONDS = 0.25
BUSY_SECONDS = 1.0  # until a run that another process is executing is looked at again


class WorkerDiedError(Exception):
    """A worker process ended without an answer."""


@dataclass
class Worker:
    """A process that executes one run after the other and dies alone."""

    command: list[str]
    environment: dict[str, str]
    stopping: threading.Event
    process: "subprocess.Popen[str] | None" = None
    errors: IO[bytes] | None = None

    def execute(self, folder: RunFolder) -> str:
        """Have a run executed; returns the worker's answer.

        Raises:
            WorkerDiedError: If the process ended instead; the text says how.
        """
        if self.process is None:
            self._start()
        process = self.process
        if process is None or process.stdin is None or process.stdout is None:
            raise WorkerDiedError("The worker process could not be started.")
        try:
            process.stdin.write(f"{folder.path.resolve()}\n")
            process.stdin.flush()
            answer = process.stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise WorkerDiedError(self._last_words())
        return answer

    def _start(self) -> None:
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=self.environment,
            text=True,
            start_new_session=True,  # Ctrl-C is for the launcher, which passes it on
        )
        if self.stopping.is_set():  # the request came before there was a process to pass it on to
            self.ask_to_stop()

    def _last_words(self) -> str:
        process, self.process = self.process, None
        code = 0
        if process is not None:
            code = process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what could not be written to the dead process is flushed again
                        pipe.close()
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        hint = " The machine may have run out of memory: try fewer --workers." if code == -signal.SIGKILL else ""
        text = ""
        if self.errors is not None:
            self.errors.seek(0)
            text = self.errors.read()[-2000:].decode(errors="replace").strip()
            self.errors.close()
        return f"The worker process {how}.{hint}" + (f" Its last words: {text}" if text else "")

    def ask_to_stop(self) -> None:
        """Have the present run saved and the process ended."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def close(self) -> None:
        """End the process after its present run."""
        if self.process is not None and self.process.stdin is not None and self.process.stdout is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
        if self.errors is not None:
            self.errors.close()


@dataclass
class Crew:
    """The workers of one launch and what they share."""

    placement: Placement
    waiting: "queue.SimpleQueue[RunFolder]" = field(default_factory=queue.SimpleQueue)
    workers: list[Worker] = field(default_factory=list)
    running: dict[int, RunFolder] = field(default_factory=dict)
    ended: list[RunFolder] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    problems: list[UserError] = field(default_factory=list)

    def hire(self, number: int) -> Worker:
        """Make the worker with a number; GPUs are given out in turn."""
        devices = available_devices(self.placement.device)
        device = devices[number % len(devices)]
        where = self.placement
        arguments = (device, str(where.workers), str(where.threads), str(where.data), str(os.getpid()))
        own = {"OMP_NUM_THREADS": str(where.threads), COMMAND_VARIABLE: shlex.join(sys.argv)}
        # -P keeps the folder that the command was given in off the module path
        command = [sys.executable, "-P", "-m", "augbench.bench.worker", *arguments]
        worker = Worker(command, os.environ | own, self.stopping)
        self.workers.append(worker)
        return worker

    def work(self, number: int) -> None:
        """Execute waiting runs until there are none; what one thread of the launcher does."""
        worker = self.hire(number)
        try:
            while not self.stopping.is_set():
                try:
                    folder = self.waiting.get_nowait()
                except queue.Empty:
                    return
                self._execute(number, worker, folder)
        finally:
            worker.close()

    def _execute(self, number: int, worker: Worker, folder: RunFolder) -> None:
        self.running[number] = folder
        try:
            answer = worker.execute(folder)
        except WorkerDiedError as error:
            answer = "died"
            if not self.stopping.is_set():
                self._record_death(folder, str(error))
        finally:
            del self.running[number]
        if answer == "busy":
            self.stopping.wait(BUSY_SECONDS)
            self.waiting.put(folder)
        else:
            self.ended.append(folder)

    def _record_death(self, folder: RunFolder, reason: str) -> None:
        """Write down what the worker no longer can; what is wrong with the folder itself is said at the end."""
        try:
            if folder.state() is not RunState.DONE:
                status = folder.read_status()
                died = RunState.KILLED if status.get("state") == RunState.RUNNING else RunState.FAILED
                folder.write_status(died, attempt=status.get("attempt", 0), reason=reason)
        except UserError as error:
            self.problems.append(error)

    def stop(self) -> None:
        """Have every run saved and every worker ended."""
        self.stopping.set()
        for worker in list(self.workers):
            worker.ask_to_stop()


@register("local")
class Local(Launcher):
    """Runs on this machine, as many at a time as there are workers."""

    title = "this machine: a few worker processes, GPUs given out in turn"

    def launch(self, runs: Sequence[RunFolder], placement: Placement, poll: Callable[[Activity], None]) -> None:
        """Have every run executed and return when all have ended."""
        crew = Crew(placement)
        for run in runs:
            crew.waiting.put(run)
        count = max(1, min(placement.workers, len(runs)))
        with ThreadPoolExecutor(count) as threads:
            tasks = [threads.submit(crew.work, number) for number in range(count)]
            try:
                while wait(tasks, timeout=POLL_SECONDS).not_done:
                    poll(Activity(tuple(list(crew.running.values())), tuple(crew.ended)))
            finally:
                if not all(task.done() for task in tasks):  # Ctrl-C, or something went wrong here
                    crew.stop()
        for task in tasks:
            task.result()
        for problem in crew.problems:
            raise problem
        poll(Activity((), tuple(crew.ended)))
