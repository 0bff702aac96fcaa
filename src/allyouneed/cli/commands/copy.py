"""`allyouneed copy`: copies prepared data and models to and from object stores and other places."""

from pathlib import Path
from typing import Literal

from allyouneed.cli.progress import progress
from allyouneed.errors import notice


def copy(source: Path, target: Path, /, *, precision: Literal["int8"] | None = None) -> None:
    """Copy prepared data or a model to or from another place, such as an object store.

    ```
    allyouneed copy data s3://bucket/data
    allyouneed copy gs://bucket/model models/first
    allyouneed train runs/first --data s3://bucket/data --preset base
    allyouneed copy models/first models/small --precision int8
    ```

    A copy that is interrupted goes on with the same command: files that are there and whole stay. What comes
    from another place is compared with its manifest. Other commands read prepared data and models at a URL,
    too: a copy is then kept in the cache directory. Each kind of URL needs its package of fsspec, such as
    s3fs, gcsfs or adlfs.

    With `--precision int8` the copy is a model whose matrices are stored in 8 bits: a quarter of the size.
    Every command works on it as on the original.

    Args:
        source: A local folder, or a URL.
        target: A new local folder, or a URL if the source is local.
        precision: Precision to store the matrices of a model in, in a local folder; the source may then also
            be a run. By default files are copied as they are.
    """
    from allyouneed.storage.publish.disk import url_of
    from allyouneed.storage.remote import copy_published

    name = url_of(source) or source
    if precision == "int8":
        from allyouneed.storage.checkpoint import store_rounded

        store_rounded(source, target, notice)
        print(f"{target}: a copy of {name} with its matrices in int8")
        return
    with progress(None, unit="bytes", description="copy") as shown:
        copy_published(source, target, notice, shown.advance, shown.skip)
    print(f"{url_of(target) or target}: a copy of {name}")
