"""Every experiment that `reproduce` knows: to add one, write a file like `aop.py` and name it here."""

from allyouneed.experiments.aop import AOP
from allyouneed.experiments.extrapolation import EXTRAPOLATION
from allyouneed.experiments.scaling import SCALING
from allyouneed.experiments.table1 import TABLE1
from allyouneed.experiments.table3 import TABLE3
from allyouneed.experiments.variants import VARIANTS

EXPERIMENTS = {
    experiment.name: experiment for experiment in (TABLE1, TABLE3, AOP, SCALING, EXTRAPOLATION, VARIANTS)
}
"""Name on the command line -> experiment."""
