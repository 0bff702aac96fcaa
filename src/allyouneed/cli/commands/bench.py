"""`allyouneed bench`: compares speed with other software, on this machine."""

from cyclopts import App

from allyouneed.cli.commands.bench_train import train
from allyouneed.cli.commands.bench_translate import translate

bench = App(
    name="bench",
    help="""Compare training and decoding speed with other software, on this machine.

```
allyouneed bench train
allyouneed bench translate models/first --source test.en --reference test.de
```
""",
)
bench.command(train)
bench.command(translate)
