"""Weblate's machinery for LibreTranslate and DeepL, as it is, on a server; run by a Python that has Weblate.

    python weblate_client.py URL

Installed with `pip install weblate`; where the libraries that draw and read pictures (cairo, tesserocr) are
missing, stand-ins for them suffice, as no picture is drawn. Units are those of Weblate's own tests, which
need no database, and get their glossary as these do.
"""

import atexit
import importlib
import json
import os
import shutil
import sys
import tempfile
from unittest.mock import MagicMock, patch

for picture_library in ("cairo", "gi", "gi.repository", "tesserocr"):
    try:
        importlib.import_module(picture_library)
    except ImportError:
        sys.modules[picture_library] = MagicMock()

os.environ["DJANGO_SETTINGS_MODULE"] = "weblate.settings_example"
from django.conf import settings  # noqa: E402

settings.DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
memory = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
settings.CACHES = {"default": memory, "avatar": memory}
settings.SITE_DOMAIN = "weblate.example"
settings.DATA_DIR = tempfile.mkdtemp()
atexit.register(shutil.rmtree, settings.DATA_DIR, ignore_errors=True)

import django  # noqa: E402

django.setup()

from weblate.checks.tests.test_checks import MockUnit  # noqa: E402
from weblate.machinery.base import BatchMachineTranslation  # noqa: E402
from weblate.machinery.deepl import DeepLTranslation  # noqa: E402
from weblate.machinery.libretranslate import LibreTranslateTranslation  # noqa: E402

UNITS = [
    ("sun", ""),
    ("star %(name)s moon %(n)d", "python-format"),
    ('<b>bird</b> sees <a href="x?a=1">fish</a>', "xml-text"),
    ("wolf\n\n- moon & 'tree'\nstar", ""),
    (["%d sun", "%d stars of %s"], "c-format"),
]
GLOSSARIES = "moon\tZebra", "moon\tYak"


def texts(machinery: BatchMachineTranslation, language: str) -> list[list[str]]:
    """The translations of each unit: one, or one for each plural form."""
    units = [MockUnit(code=language, source=source, flags=flags) for source, flags in UNITS]
    return [[found["text"] for form in machinery.translate(unit) for found in form] for unit in units]


answers = {}
for kind, path, target in ((LibreTranslateTranslation, "", "cs"), (DeepLTranslation, "/v2", "CS")):
    machinery = kind({"url": f"{sys.argv[1]}{path}", "key": "any"})
    machinery.validate_settings()
    answer = {"languages": sorted(machinery.supported_languages), "translations": []}
    for glossary in GLOSSARIES:
        with patch("weblate.glossary.models.get_glossary_tsv", new=lambda _, tsv=glossary: tsv):
            answer["translations"].append(texts(machinery, "de_AT"))
    with patch("weblate.glossary.models.get_glossary_tsv", new=lambda _: ""):
        answer["unsupported"] = texts(machinery, "cs")
    try:
        machinery.download_multiple_translations("en", target, [("sun", None)])
    except Exception as error:
        answer["refusal"] = machinery.get_error_message(error)
    answers[machinery.name] = answer
print(json.dumps(answers))
