"""All experiments of `reproduce`. To add one, write a file like `table3.py`, and list it here."""

from allyouneed.lab.paper.extrapolation import EXTRAPOLATION
from allyouneed.lab.paper.figures import FIGURES
from allyouneed.lab.paper.paths import PATHS
from allyouneed.lab.paper.scaling import SCALING
from allyouneed.lab.paper.table1 import TABLE1
from allyouneed.lab.paper.table2 import TABLE2, TABLE2_EN_FR
from allyouneed.lab.paper.table3 import TABLE3
from allyouneed.lab.paper.table4 import TABLE4
from allyouneed.lab.paper.table4_grammar import TABLE4_GRAMMAR
from allyouneed.lab.paper.variants import AOP, VARIANTS

_ALL = (
    *(TABLE1, PATHS, TABLE2, TABLE2_EN_FR, TABLE3, TABLE4, TABLE4_GRAMMAR),
    *(AOP, SCALING, EXTRAPOLATION, VARIANTS, FIGURES),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
"""Command-line name -> experiment, in the order of the index of results."""
