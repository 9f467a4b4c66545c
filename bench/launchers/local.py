"""Places runs on this machine, a few at a time, each worker in a process of its own."""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO

from augbench.bench.common.errors import UserError, end_in_words
from augbench.bench.launchers.launcher import Activity, EndedAtOnce, Launcher, LaunchRequest
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.registry.registry import register
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.claim import LAUNCHER_VARIABLE, last_owner
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.process_memory import kills_for_memory
from augbench.bench.training.provenance import COMMAND_VARIABLE, available_devices, given_command

POLL_SECONDS = 0.25
LAST_WORDS = 2000  # bytes of what a worker has printed
MOST_WORDS = 1_000_000  # bytes of it that are kept for a while
BUSY_SECONDS = 1.0  # until a run that another process is executing is looked at again


class WorkerDiedError(Exception):
    """A worker process ended without an answer.

    Args:
        reason: How, in a sentence or two.
        cause: What it died of.
        words: What it has printed last.
    """

    def __init__(self, reason: str, cause: Cause = Cause.KILLED, words: str = "") -> None:
        super().__init__(f"{reason} It last printed: {words}" if words else reason)
        self.reason, self.cause, self.words = reason, cause, words


class NoWorkerError(UserError):
    """A worker process ended before it could execute anything; the next one would as well."""


@dataclass
class Worker:
    """A process that executes one run after the other; its death affects no other process."""

    command: list[str]
    environment: dict[str, str]
    stopping: threading.Event
    process: "subprocess.Popen[str] | None" = None
    errors: IO[bytes] | None = None
    memory_kills: int = 0
    earlier_words: bytes = b""

    def execute(self, folder: RunFolder, threads: int) -> str:
        """Have a run executed with a number of CPU threads; returns the worker's answer.

        Raises:
            WorkerDiedError: If the process ended instead.
            NoWorkerError: If it could not begin.
        """
        if self.process is None:
            self._start()
        if self.process is None or self.process.stdin is None or self.process.stdout is None:
            raise WorkerDiedError("The worker process could not be started.")
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps([threads, str(folder.path.resolve())]) + "\n")
            self.process.stdin.flush()
            if answer := self.process.stdout.readline().strip():
                return answer
        raise self._death()

    def _start(self) -> None:
        self.memory_kills = kills_for_memory()
        self.errors, self.earlier_words = tempfile.TemporaryFile(), b""
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
        if self.process.stdout is not None and not self.process.stdout.readline():
            death = self._death()
            if self.stopping.is_set():
                raise death
            last = "".join(f" It last printed: {line.rstrip('.')}." for line in death.words.splitlines()[-1:])
            raise NoWorkerError(
                f"No worker process can begin on this machine. {death.reason}{last} Correct that, then give the "
                "same command again. No run has failed; everything saved is kept."
            )

    def _death(self) -> WorkerDiedError:
        process, self.process = self.process, None
        code = 0
        if process is not None:
            code = process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):  # what could not be written to the dead process is flushed again
                        pipe.close()
        reason, cause = f"The worker process {end_in_words(code)}.", Cause.KILLED
        if code == -signal.SIGKILL and kills_for_memory() > self.memory_kills:
            reason, cause = f"{reason} The machine ran out of memory: try fewer --workers.", Cause.OUT_OF_MEMORY
        elif code == -signal.SIGKILL:
            reason += " The machine may have run out of memory: try fewer --workers."
        elif code == -signal.SIGBUS:
            reason += (
                " A file that it had mapped into memory was cut short, or its disk failed: `augbench data verify` "
                "examines prepared data sets."
            )
        return WorkerDiedError(reason, cause, self._last_words())

    def _last_words(self) -> str:
        if self.errors is None:
            return ""
        text = self._end_of_words()
        self.errors.close()
        return text.decode(errors="replace").strip()

    def _end_of_words(self) -> bytes:
        if self.errors is None:
            return b""
        file = self.errors.fileno()
        last = os.pread(file, LAST_WORDS, max(0, os.fstat(file).st_size - LAST_WORDS))
        return (self.earlier_words + last.replace(b"\0", b""))[-LAST_WORDS:]  # what was let go reads as zeros

    def forget_old_words(self) -> None:
        """Delete what the process has printed, once it is much, except the end, which alone is ever shown."""
        with suppress(ValueError, OSError):  # the process has just ended, and the file is closed
            if self.errors is not None and os.fstat(self.errors.fileno()).st_blocks * 512 > MOST_WORDS:
                self.earlier_words = self._end_of_words()
                os.ftruncate(self.errors.fileno(), 0)

    def ask_to_stop(self) -> None:
        """Have the present run saved and the process ended."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()

    def kill(self) -> None:
        """End the process, and whatever it has started, without asking."""
        if self.process is not None and self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # it leads a group of its own

    def close(self) -> None:
        """End the process after its present run."""
        if self.process is not None and self.process.stdin is not None and self.process.stdout is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
        if self.errors is not None:
            self.errors.close()


@dataclass
class WorkerPool:
    """The workers of one launch and what they share."""

    request: LaunchRequest
    waiting: "queue.SimpleQueue[PlannedRun]" = field(default_factory=queue.SimpleQueue)
    workers: list[Worker] = field(default_factory=list)
    running: dict[int, RunFolder] = field(default_factory=dict)
    ended: list[RunFolder] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    problems: list[UserError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def activity(self) -> Activity:
        """Return what the launcher is doing."""
        for worker in list(self.workers):
            worker.forget_old_words()
        return Activity(tuple(list(self.running.values())), tuple(self.ended), tuple(self.notes))

    def start_worker(self, number: int) -> Worker:
        """Make the worker with a number; GPUs are given out in turn."""
        settings = self.request.settings
        devices = available_devices(settings.device)
        arguments = (devices[number % len(devices)], str(settings.workers), str(settings.data), str(os.getpid()))
        threads = str(self.request.profile.resources.threads)
        own = {"OMP_NUM_THREADS": threads, COMMAND_VARIABLE: given_command(), LAUNCHER_VARIABLE: Local.name}
        # -P keeps the folder that the command was given in off the module path
        command = [sys.executable, "-P", "-m", "augbench.bench.training.worker", *arguments]
        worker = Worker(command, os.environ | own, self.stopping)
        self.workers.append(worker)
        return worker

    def work(self, number: int) -> None:
        """Execute waiting runs until there are none, in one thread of the launcher."""
        worker = self.start_worker(number)
        try:
            while not self.stopping.is_set():
                try:
                    run = self.waiting.get_nowait()
                except queue.Empty:
                    return
                self._execute(number, worker, run)
        finally:
            worker.close()

    def _execute(self, number: int, worker: Worker, run: PlannedRun) -> None:
        folder = run.folder
        self.running[number] = folder
        try:
            answer = worker.execute(folder, self.request.profile.resources_for(run.spec.method.name).threads)
        except NoWorkerError as error:
            self.problems.append(error)
            self.stop()
            return
        except WorkerDiedError as error:
            answer = "died"
            problem = "" if self.stopping.is_set() else folder.record_death(error.cause, str(error))
            if problem:  # with the folder itself, which is said at the end
                self.problems.append(UserError(problem))
        finally:
            del self.running[number]
        if answer == "busy":
            self._note_owner(folder)
            self.stopping.wait(BUSY_SECONDS)
            self.waiting.put(run)
            return
        self.ended.append(folder)
        if answer == RunState.FAILED and self.request.fail_fast:
            self.stop()

    def _note_owner(self, folder: RunFolder) -> None:
        """Say once which process a run waits for."""
        owner = last_owner(folder.path)
        process = f" (process {owner['pid']})" if "pid" in owner else ""
        note = f"Waiting for {owner.get('host', 'another machine')}{process}, which executes {folder.path.name}."
        if note not in self.notes:
            self.notes.append(note)

    def stop(self) -> None:
        """Have every run saved and every worker ended."""
        self.stopping.set()
        for worker in list(self.workers):
            worker.ask_to_stop()

    def kill(self) -> None:
        """End every worker at once."""
        for worker in list(self.workers):
            worker.kill()


@register("local")
class Local(Launcher):
    """Runs on this machine, as many at a time as there are workers."""

    title = "this machine: a few worker processes, GPUs given out in turn"

    def describe(self, runs: Sequence[PlannedRun], request: LaunchRequest) -> list[str]:
        """Say how many at a time, and where."""
        devices = ", ".join(available_devices(request.settings.device))
        return [f"{len(runs)} on this machine, at most {request.settings.workers} at a time, on {devices}."]

    def launch(self, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]) -> None:
        """Have every run executed and return when all have ended."""
        pool = WorkerPool(request)
        for run in runs:
            pool.waiting.put(run)
        count = max(1, min(request.settings.workers, len(runs)))
        with ThreadPoolExecutor(count) as threads:
            tasks = [threads.submit(pool.work, number) for number in range(count)]
            try:
                while wait(tasks, timeout=POLL_SECONDS).not_done:
                    poll(pool.activity())
            except KeyboardInterrupt:
                _stop(pool, tasks, poll)
                raise
            finally:
                if not all(task.done() for task in tasks):  # something went wrong here
                    pool.stop()
        for task in tasks:
            task.result()
        for problem in sorted(pool.problems, key=lambda one: not isinstance(one, NoWorkerError)):
            raise problem
        poll(pool.activity())


def _stop(pool: WorkerPool, tasks: "Sequence[Future[None]]", poll: Callable[[Activity], None]) -> None:
    """Have every run saved and stopped; another Ctrl-C ends them at once, and raises EndedAtOnce."""
    pool.stop()
    names = [folder.path.name for folder in list(pool.running.values())]
    if names:
        pool.notes.append(
            f"Waiting for {', '.join(names)} to save and stop. Ctrl-C again ends them at once; what they have saved "
            "before is kept."
        )
    try:
        poll(pool.activity())  # says at once what is waited for
        while wait(tasks, timeout=POLL_SECONDS).not_done:
            poll(pool.activity())
    except KeyboardInterrupt:
        with _no_more_interrupts():
            unsaved = list(pool.running.values())
            pool.kill()
            wait(tasks)
        raise EndedAtOnce(unsaved) from None


@contextmanager
def _no_more_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C, since everything is being ended already."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
