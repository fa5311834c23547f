"""Making scenarios: by numbers, from the paper's parameter sets, or from a map."""

from stagewise.world.generate.coverage import covering_links
from stagewise.world.generate.geo_map import PathLoss, from_map
from stagewise.world.generate.labels import allocate_labels
from stagewise.world.generate.numeric import numeric
from stagewise.world.generate.paper_sets import PAPER_SETS, paper_set
from stagewise.world.generate.points import Points, Window, read_points
from stagewise.world.generate.system import SystemParameters, random_weights
from stagewise.world.generate.tasks import TASKS, Task, image_task, model_bits, task_of

__all__ = [
    "PAPER_SETS",
    "TASKS",
    "PathLoss",
    "Points",
    "SystemParameters",
    "Task",
    "Window",
    "allocate_labels",
    "covering_links",
    "from_map",
    "image_task",
    "model_bits",
    "numeric",
    "paper_set",
    "random_weights",
    "read_points",
    "task_of",
]
