"""Where files of a job and a round lie, as workers see them (prior art: Sedna's output layout).

<outputDir>/data/<train|eval>/<round>/data.<format>   samples, and dataIndex.txt beside them
<outputDir>/<train|eval>/<round>                      what the stage's worker writes
<outputDir>/deploy/index.pkl                          a lifelong learning job's knowledge
"""

from edge_sidecars.sedna_api.core.file_url import is_below, is_remote
from lc.core.learning.job import Stage

__all__ = ["is_below", "is_remote"]

# Below which each job has the directory of its hot updates on the node.
HOT_UPDATES = "/var/lib/sedna/model-hot-update"
# Where the inference worker sees the folder of hot updates.
HOT_UPDATE_MOUNT = "/model-hot-update"


def samples_file(output_dir: str, stage: Stage, number: int, data_format: str) -> str:
    return f"{output_dir}/data/{stage.folder}/{number}/data.{data_format}"


def index_file(output_dir: str, stage: Stage, number: int) -> str:
    return f"{output_dir}/data/{stage.folder}/{number}/dataIndex.txt"


def output_folder(output_dir: str, stage: Stage, number: int) -> str:
    return f"{output_dir}/{stage.folder}/{number}"


def knowledge_file(output_dir: str) -> str:
    return f"{output_dir}/deploy/index.pkl"


def folder_of(url: str) -> str:
    """With the slash at its end."""
    return url[: url.rfind("/") + 1]


def name_of(url: str) -> str:
    return url[url.rfind("/") + 1 :]
