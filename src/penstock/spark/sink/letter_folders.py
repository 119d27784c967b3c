"""The folders of a redrive whose dead letters are in a folder: all are of this machine.

Their files appear, and those that were read are removed, in steps of which a journal has the rest.
That needs locks, and renames that are done or not: object stores have neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.configuration import ConfigurationError
from penstock.jobs.rows.letter_folder import LETTERS
from penstock.jobs.rows.parquet_folders import TargetFolder
from penstock.jobs.rows.target_folders import TargetFolders
from penstock.spark.frames.hadoop_files import local_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from penstock.jobs.locations import RecordLocation
    from penstock.jobs.rows.letter_folder import LetterFolder


class LetterFolders(NamedTuple):
    """Paths on this machine.

    Attributes:
        source: The folder of dead letters.
        folders: Those that are written to, by the name of the sink.
    """

    source: str
    folders: Mapping[str, str]

    def targets(self, replaced: LetterFolder) -> TargetFolders[TargetFolder]:
        """Return the folders to write to.

        Args:
            replaced: The folder of dead letters.

        Raises:
            ConfigurationError: One is a file or a table.
        """
        job = str(replaced.path)
        folders = {sink: TargetFolder(name, job=job) for sink, name in self.folders.items()}
        return TargetFolders(folders, replaced=replaced)


def letter_folders(
    spark: SparkSession, source: str, locations: Mapping[str, RecordLocation]
) -> LetterFolders:
    """Return where the folders of a redrive are on this machine.

    Args:
        spark: A classic session.
        source: The folder of dead letters.
        locations: The targets, by the name of the sink.

    Raises:
        ConfigurationError: One is in another file system.
    """
    here = local_path(spark, source)
    if here is None:
        raise ConfigurationError(
            f"{LETTERS}{source}: only files of this machine can be replaced safely: copy the "
            "folder to this machine, or redrive a topic"
        )
    folders = {}
    for sink, location in locations.items():
        if location.is_folder:
            path = local_path(spark, location.name)
            if path is None:
                raise ConfigurationError(
                    f"{location}: with {LETTERS}{source}, name a folder of this machine, or a topic"
                )
            folders[sink] = str(path)
    return LetterFolders(str(here), folders)
