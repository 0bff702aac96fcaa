"""Weblate's LibreTranslate machinery, as it is, on a server; run by a Python that has Weblate.

    python weblate_client.py URL

Installed with `pip install weblate`; where the libraries that draw and read pictures (cairo, tesserocr) are
missing, stand-ins for them suffice, as no picture is drawn.
"""

import atexit
import importlib
import json
import os
import shutil
import sys
import tempfile
from unittest.mock import MagicMock

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

from weblate.machinery.libretranslate import LibreTranslateTranslation  # noqa: E402

machinery = LibreTranslateTranslation({"url": sys.argv[1], "key": ""})
machinery.validate_settings()
texts = [("sun", None), ("star", None)]
answer = {
    "languages": sorted(machinery.supported_languages),
    "translations": machinery.download_multiple_translations("en", "es", texts),
}
try:
    machinery.download_multiple_translations("en", "cs", texts)
except Exception as error:
    answer["refusal"] = str(error)
print(json.dumps(answer))
