"""Making scenarios: by numbers, from the paper's parameter sets, a map, or measured delays."""

from stagewise.world.generate.coverage import covering_links as covering_links
from stagewise.world.generate.delay_matrix import from_delays as from_delays
from stagewise.world.generate.geo_map import PathLoss as PathLoss
from stagewise.world.generate.geo_map import from_map as from_map
from stagewise.world.generate.labels import allocate_labels as allocate_labels
from stagewise.world.generate.numeric import numeric as numeric
from stagewise.world.generate.paper_sets import PAPER_SETS as PAPER_SETS
from stagewise.world.generate.paper_sets import paper_set as paper_set
from stagewise.world.generate.points import Points as Points
from stagewise.world.generate.points import Window as Window
from stagewise.world.generate.points import read_points as read_points
from stagewise.world.generate.system import SystemParameters as SystemParameters
from stagewise.world.generate.system import random_weights as random_weights
from stagewise.world.generate.tasks import TASKS as TASKS
from stagewise.world.generate.tasks import Task as Task
from stagewise.world.generate.tasks import image_task as image_task
from stagewise.world.generate.tasks import model_bits as model_bits
from stagewise.world.generate.tasks import task_of as task_of
