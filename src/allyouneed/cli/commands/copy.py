"""`allyouneed copy`: copies prepared data and models to and from object stores and other places."""

from pathlib import Path

from allyouneed.cli.progress import progress
from allyouneed.errors import notice


def copy(source: Path, target: Path, /) -> None:
    """Copy prepared data or a model to or from another place, such as an object store.

    ```
    allyouneed copy data s3://bucket/data
    allyouneed copy gs://bucket/model models/first
    allyouneed train runs/first --data s3://bucket/data --preset base
    ```

    A copy that is interrupted goes on with the same command: files that are there and whole stay. What comes
    from another place is compared with its manifest. Other commands read prepared data and models at a URL,
    too: a copy is then kept in the cache directory. Each kind of URL needs its package of fsspec, such as
    s3fs, gcsfs or adlfs.

    Args:
        source: A local folder, or a URL.
        target: A new local folder, or a URL if the source is local.
    """
    from allyouneed.storage.publish.disk import url_of
    from allyouneed.storage.remote import copy_published

    with progress(None, unit="bytes", description="copy") as shown:
        copy_published(source, target, notice, shown.advance, shown.skip)
    print(f"{url_of(target) or target}: a copy of {url_of(source) or source}")
