"""CTranslate2 behind FastAPI, as people serve it: the peer of `benchmarks/serving.py`.

Requests are those of `POST /api/translate`. CTranslate2 batches the texts of a request; requests share its
workers, one thread for each core, and FastAPI's thread pool waits for them.

Arguments: FOLDER PORT BEAM_SIZE MIN_LENGTH MAX_LENGTH
"""

import sys
from pathlib import Path

import ctranslate2
import tokenizers
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict

from allyouneed.hardware.processor import available_cores


class Body(BaseModel):
    """The request."""

    model_config = ConfigDict(extra="forbid", strict=True)
    text: str | list[str]


def application(folder: Path, beam_size: int, min_length: int, max_length: int) -> FastAPI:
    """The application for a model exported by `allyouneed export --to ctranslate2`."""
    source, target = (
        tokenizers.Tokenizer.from_file(str(folder / f"{side}_tokenizer.json"))
        for side in ("source", "target")
    )
    workers = available_cores()
    translator = ctranslate2.Translator(
        str(folder), compute_type="int8", inter_threads=workers, intra_threads=1
    )
    app = FastAPI()

    @app.post("/api/translate")
    def translate(body: Body) -> dict[str, list[str]]:
        texts = [body.text] if isinstance(body.text, str) else body.text
        found = translator.translate_batch(
            [source.encode(text).tokens for text in texts],
            beam_size=beam_size,
            min_decoding_length=min_length,
            max_decoding_length=max_length,
            suppress_sequences=[["<pad>"], ["<s>"], ["<sentinel>"]],
        )
        return {"results": [_text(target, each.hypotheses[0]) for each in found]}

    return app


def _text(tokenizer: tokenizers.Tokenizer, pieces: list[str]) -> str:
    ids = [tokenizer.token_to_id(piece) for piece in pieces]
    return str(tokenizer.decode([token for token in ids if token is not None]))


if __name__ == "__main__":
    folder, port, *numbers = sys.argv[1:]
    uvicorn.run(application(Path(folder), *map(int, numbers)), port=int(port), log_level="error")
