"""Holds a Ray cluster on this machine until standard input ends, in a process and session of its own.

So a signal to all processes of a terminal or a job reaches the launcher alone, which has the runs saved while the
cluster goes on; and the cluster ends with the launcher, however that ends.
"""

import json
import logging
import os
import shutil
import sys

import ray
from ray.exceptions import RayError


def main() -> None:
    """Read the options of `ray.init` from a line of standard input, and answer with the address or what is wrong."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what Ray prints is no answer
    options = json.loads(sys.stdin.readline())
    try:
        ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **options)
        answer = {"address": ray.get_runtime_context().gcs_address}
    except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
        answer = {"error": str(error)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
    sys.stdin.read()
    ray.shutdown()
    shutil.rmtree(options["_temp_dir"], ignore_errors=True)  # a launcher that was killed cannot


if __name__ == "__main__":
    main()
