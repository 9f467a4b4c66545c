"""A data set of one's own, as `augbench data prepare images`, `arrays` or `table` has prepared it."""

from pathlib import Path

from pydantic import Field, field_validator

from augbench.bench.common.errors import UserError
from augbench.bench.data.array_folder import check_arrays
from augbench.bench.data.dataset import DatasetOptions, DatasetSource, ImageData
from augbench.bench.data.own.stored import PREPARED, load_own, name_of, own_folder, read_own_manifest
from augbench.bench.data.prepared import PreparedOptions, with_train_images
from augbench.bench.data.source_files import FileResolver
from augbench.bench.registry.registry import register


class OwnOptions(PreparedOptions):
    """Options of a data set of one's own."""

    prepared: str = Field("", description="name and checksum, such as pets-1f3a9c0b2d4e, that preparing it has printed")

    @field_validator("prepared")
    @classmethod
    def _of_the_right_form(cls, prepared: str) -> str:
        if prepared and not PREPARED.fullmatch(prepared):
            raise ValueError("must be a name and twelve digits of a checksum, such as pets-1f3a9c0b2d4e")
        return prepared


@register("own")
class Own(DatasetSource):
    """Images of one's own: a folder for each class, arrays in an .npz file, or a Parquet table."""

    title = "images of your own: see `augbench data prepare --help`"
    options_type = OwnOptions

    def prepare(self, resolver: FileResolver) -> Path | None:
        """Say how it is prepared.

        Raises:
            UserError: Always: only the user knows where the images are.
        """
        raise UserError(
            "The data set 'own' is made of images of your own. Prepare them with `augbench data prepare images PATH`, "
            "`augbench data prepare arrays FILE.npz` or `augbench data prepare table PATH`."
        )

    def load(self, options: DatasetOptions, root: Path) -> ImageData:
        """Map the arrays into memory, and choose training images."""
        prepared = _prepared(options)
        count = OwnOptions.model_validate(options.model_dump()).train_images
        return with_train_images(name_of(prepared), load_own(prepared, root), count)

    def source_checksum(self, options: DatasetOptions) -> str:
        """Return the start of the checksum of the arrays, which is in their name."""
        digits = _prepared(options).rpartition("-")[2]
        return f"sha256:{digits}" if digits else ""

    def check(self, options: DatasetOptions, root: Path) -> None:
        """Make sure that the data set is sound, byte by byte."""
        prepared = _prepared(options)
        read_own_manifest(prepared, root)
        check_arrays(own_folder(root) / prepared)


def _prepared(options: DatasetOptions) -> str:
    return str(options.model_dump()["prepared"])
