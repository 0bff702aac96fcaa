"""A model of several languages is served as one of each direction, and loaded once."""

import shutil
from pathlib import Path

import pytest
from tests.serve.conftest import DECODING, SETTINGS
from tests.serve.test_service import run

from allyouneed import load_translator
from allyouneed.errors import UsageError
from allyouneed.serve.directions import directions_of
from allyouneed.serve.models import ModelSource, ServedModel, direction_of, load_models, newer
from allyouneed.serve.process import serving
from allyouneed.serve.request_options import RequestOptions
from allyouneed.storage.run_directory import resolve_model
from allyouneed.tasks.translation.translator import Translator

CPU = "cpu"


@pytest.fixture
def served(multilingual_model: Path, tmp_path: Path) -> list[ServedModel]:
    """The model, at a place where another may replace it."""
    shutil.copytree(resolve_model(multilingual_model), tmp_path / "many")
    return load_models([ModelSource(tmp_path / "many", precision="float32")], CPU)


def engine_of(model: ServedModel) -> object:
    assert isinstance(model.loaded, Translator)
    return model.loaded.engine


def test_each_direction_is_a_model_of_its_own_name_that_shares_the_weights(served: list[ServedModel]) -> None:
    assert [(each.name, each.source, each.target) for each in served] == [
        ("many-en-de", "en", "de"),
        ("many-en-fr", "en", "fr"),
    ]
    assert engine_of(served[0]) is engine_of(served[1])
    assert [(each.source, each.target) for each in directions_of(served)] == [("en", "de"), ("en", "fr")]


def test_a_request_gets_the_language_that_it_asks_for(
    served: list[ServedModel], multilingual_model: Path
) -> None:
    translator = load_translator(resolve_model(multilingual_model))
    text = ">>de<< sun moon"  # the symbol is text
    with serving(served, DECODING, SETTINGS) as service:
        for to in ("de", "fr"):
            for asked in (RequestOptions(target=to), RequestOptions("en", to, f"many-en-{to}")):
                [plain, literal] = run(service.translate(["sun moon", text], asked))
                assert plain.translations[0].text == translator.translate(["sun moon"], to=to)[0].text
                assert literal.translations[0].text == translator.translate([text], to=to)[0].text
                assert [segment.source for segment in literal.segments] == [text]
                assert (plain.target, plain.models) == (to, (f"many-en-{to}",))


def test_a_direction_that_is_named_is_the_only_one(multilingual_model: Path) -> None:
    paths = [f"en-fra={multilingual_model}", f"en-de={multilingual_model}"]
    first, second = load_models([direction_of(path) for path in paths], CPU)
    assert (first.source, first.target, second.target) == ("en", "fra", "de")
    assert engine_of(first) is engine_of(second)
    with pytest.raises(UsageError, match=r"^language 'es': the model writes de, fr; choose one of these$"):
        load_models([direction_of(f"en-es={multilingual_model}")], CPU)


def test_names_stay_different(multilingual_model: Path, tmp_path: Path) -> None:
    for name in ("many", "many-en-de"):
        shutil.copytree(resolve_model(multilingual_model), tmp_path / name)
    sources = [ModelSource(tmp_path / "many"), ModelSource(tmp_path / "many-en-de", ("en", "de"))]
    names = [each.name for each in load_models(sources, CPU)]
    assert names == ["many-en-de", "many-en-fr", "many-en-de-2"]


def test_a_model_that_is_replaced_is_loaded_once_for_all_directions(
    served: list[ServedModel], multilingual_model: Path, toy_model: Path
) -> None:
    first, second = served
    path = first.path
    assert newer(first, CPU, served) is None
    shutil.rmtree(path)
    shutil.copytree(resolve_model(multilingual_model), path)
    german = newer(first, CPU, served)
    assert german is not None
    french = newer(second, CPU, [german, second])
    assert french is not None
    assert (german.name, french.name, french.target) == ("many-en-de", "many-en-fr", "fr")
    assert engine_of(german) is engine_of(french)
    assert engine_of(german) is not engine_of(first)
    assert isinstance(french.loaded, Translator)
    assert french.loaded.config.data.target_language == "fr"
    shutil.rmtree(path)
    shutil.copytree(toy_model, path)
    with pytest.raises(UsageError, match="the model does not know its languages"):
        newer(german, CPU, [german, french])
