"""All experiments of `reproduce`. To add one, write a file like `aop.py`, and list it here.

The command `reproduce` names it, too; `interfaces/reports/results_index.py` has its place among all results.
"""

from allyouneed.paper.aop import AOP
from allyouneed.paper.extrapolation import EXTRAPOLATION
from allyouneed.paper.figures import FIGURES
from allyouneed.paper.paths import PATHS
from allyouneed.paper.scaling import SCALING
from allyouneed.paper.table1 import TABLE1
from allyouneed.paper.table2 import TABLE2, TABLE2_EN_FR
from allyouneed.paper.table3 import TABLE3
from allyouneed.paper.table4 import TABLE4
from allyouneed.paper.table4_grammar import TABLE4_GRAMMAR
from allyouneed.paper.variants import VARIANTS

_ALL = (
    *(TABLE1, TABLE2, TABLE2_EN_FR, TABLE3, TABLE4, TABLE4_GRAMMAR),
    *(AOP, SCALING, EXTRAPOLATION, PATHS, VARIANTS, FIGURES),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
"""Command-line name -> experiment."""
