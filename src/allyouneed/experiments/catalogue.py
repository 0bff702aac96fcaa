"""Every experiment that `reproduce` knows: to add one, write a file like `aop.py` and name it here."""

from allyouneed.experiments.aop import AOP
from allyouneed.experiments.extrapolation import EXTRAPOLATION
from allyouneed.experiments.figures import FIGURES
from allyouneed.experiments.scaling import SCALING
from allyouneed.experiments.table1 import TABLE1
from allyouneed.experiments.table2 import TABLE2
from allyouneed.experiments.table3 import TABLE3
from allyouneed.experiments.table4 import TABLE4
from allyouneed.experiments.variants import VARIANTS

_ALL = (TABLE1, TABLE2, TABLE3, TABLE4, AOP, SCALING, EXTRAPOLATION, VARIANTS, FIGURES)
EXPERIMENTS = {experiment.name: experiment for experiment in _ALL}
"""Name on the command line -> experiment."""
