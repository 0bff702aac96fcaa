"""What the tests of published directories share."""

from pathlib import Path

import pytest

from allyouneed.storage.publish import publish_directory


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A published directory with a file in a folder."""
    target = tmp_path / "model"
    with publish_directory(target, "model", {"step": 7}) as folder:
        (folder / "weights").write_bytes(bytes(range(256)) * 20)
        (folder / "tokenizers").mkdir()
        (folder / "tokenizers" / "größe.json").write_bytes(b"{}")
    return target
