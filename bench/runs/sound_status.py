"""What a worker may write into `status.json`; anything else there is ignored."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Count = Annotated[int, Field(ge=0, le=2**53)]
IDLE_ATTEMPTS = "attempts_without_progress"  # in a row, each stopped before anything more could be saved


class _Began(BaseModel):
    model_config = ConfigDict(strict=True)

    step: Count
    time: str


class _Status(BaseModel):
    """What a worker writes into `status.json`, as far as anything is concluded from it."""

    model_config = ConfigDict(strict=True)

    state: str = ""
    owner: dict[str, Any] = {}
    attempt: Count = 0
    step: Count = 0
    steps: Count = 0
    epoch: Count = 0
    epochs: Count = 0
    attempts_without_progress: Count = 0
    phase_began: _Began | None = None
    time: str = ""
    reason: str = ""


def sound_status(status: dict[str, Any]) -> dict[str, Any]:
    """Leave out fields that no worker can have written: somebody has damaged them."""
    try:
        _Status.model_validate(status)
    except ValidationError as error:
        wrong = {one["loc"][0] for one in error.errors()}
        return {name: value for name, value in status.items() if name not in wrong}
    return status
