"""`allyouneed bench`: how fast this machine does the work, beside other software on the same work."""

from cyclopts import App

from allyouneed.interfaces.commands.bench_train import train
from allyouneed.interfaces.commands.bench_translate import translate

bench = App(
    name="bench",
    help="""Measure how fast this machine trains and translates, beside other software on the same work.

```
allyouneed bench train
allyouneed bench translate models/first --source test.en --reference test.de
```
""",
)
bench.command(train)
bench.command(translate)
