"""What Marian, transformers and `train --budget` learn from the same text in the same time, on all cores.

    pip install pymarian "transformers>=5,<6" accelerate sentencepiece
    python benchmarks/best_in_time.py OUT TEXT MINUTES [CONTENDER ..]

TEXT holds train, valid and test, each as `.src` and `.trg`, a sentence per line. The other two have the
size `tiny` (4 + 4 layers of width 128), a joint vocabulary, label smoothing 0.1 and dropout 0.3; all have a
beam of 5 whose length penalty is chosen on `valid`. Marian trains by the recipe of its documentation for
Transformers, with a warm-up and a rate that fit so short a run; transformers by its Seq2SeqTrainer, whose
rate falls to 0 in time, as the speed of 40 updates tells. Prints a line of JSON per contender; what is
finished is not done again.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CORES = os.cpu_count() or 1
VOCABULARY, WIDTH, FEED_FORWARD, LAYERS, HEADS, DROPOUT = 4_000, 128, 256, 4, 4, 0.3
PENALTIES = 0.6, 1.0, 1.4
BEAM = 5
Translate = Callable[[Path, float], bytes]
"""Translates a file of sentences with a length penalty."""


def lines(path: Path) -> list[str]:
    """Sentences of a file."""
    return path.read_bytes().decode().rstrip("\n").split("\n")


def allyouneed(*arguments: object, text: bytes = b"") -> bytes:
    """Run the program, and return what it prints."""
    command = [sys.executable, "-m", "allyouneed", *map(str, arguments)]
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout


def bleu(translated: Path, reference: Path) -> float:
    """BLEU (13a) of a file."""
    scores = allyouneed("evaluate", "--hypotheses", translated, "--reference", reference, "--json")
    return float(json.loads(scores)["bleu_13a"]["score"])


def pieces(out: Path, text: Path) -> Path:
    """A joint SentencePiece model, for those who make none themselves."""
    path = out / "pieces.spm"
    if not path.exists():
        import sentencepiece

        sentencepiece.SentencePieceTrainer.train(
            input=[str(text / "train.src"), str(text / "train.trg")],
            model_prefix=str(out / "pieces"),
            vocab_size=VOCABULARY,
            bos_id=-1,
            eos_id=0,
            unk_id=1,
            pad_id=-1,
            minloglevel=2,
        )
        (out / "pieces.model").rename(path)
    return path


def ours(out: Path, text: Path, minutes: float) -> Translate:
    """`prepare`, `train --budget`."""
    sides = [f"--{name}" for name in ("source", "target", "valid-source", "valid-target")]
    files = [text / name for name in ("train.src", "train.trg", "valid.src", "valid.trg")]
    if not (out / "data").exists():
        pairs = zip(sides, files, strict=True)
        allyouneed("prepare", out / "data", "--keep-repeats", *(each for pair in pairs for each in pair))
    allyouneed("train", out / "run", "--data", out / "data", "--budget", f"{60 * minutes:.0f}s", "--resume")

    def translate(source: Path, penalty: float) -> bytes:
        options = "--beam-size", BEAM, "--length-penalty", penalty
        return allyouneed("translate", out / "run", *options, text=source.read_bytes())

    return translate


def marian(out: Path, text: Path, minutes: float) -> Translate:
    """Marian in C++, by `pymarian`."""
    model, vocabs = out / "model.npz", [str(pieces(out, text))] * 2
    pymarian = str(Path(sys.executable).with_name("pymarian"))
    options: dict[str, Any] = {
        "train-sets": [text / "train.src", text / "train.trg"],
        "valid-sets": [text / "valid.src", text / "valid.trg"],
        "valid-metrics": "ce-mean-words",
        "valid-freq": "1000u",
        "vocabs": vocabs,
        "model": model,
        "type": "transformer",
        "cpu-threads": CORES,
        "dim-emb": WIDTH,
        "transformer-dim-ffn": FEED_FORWARD,
        "enc-depth": LAYERS,
        "dec-depth": LAYERS,
        "transformer-heads": HEADS,
        "transformer-dropout": DROPOUT,
        "label-smoothing": 0.1,
        "mini-batch": 1_000,
        "mini-batch-words": 4_096,
        "maxi-batch": 100,
        "max-length": 200,
        "learn-rate": 0.003,
        "lr-warmup": 2_000,
        "lr-decay-inv-sqrt": 2_000,
        "optimizer-params": [0.9, 0.98, 1e-9],
        "clip-norm": 0,
        "exponential-smoothing": 1e-4,
        "seed": 1,
    }
    command = [pymarian, "train", "--tied-embeddings-all", "--sync-sgd", "--keep-best", "--overwrite"]
    for name, value in options.items():
        command += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    with (out / "log").open("wb") as log:
        training = subprocess.Popen(command, stderr=log)
        try:
            training.wait(60 * minutes)
        except subprocess.TimeoutExpired:
            training.send_signal(signal.SIGTERM)  # it saves and exits
            training.wait()
    saved = out / "model.npz.best-ce-mean-words.npz", model
    best = next(path for path in saved if path.exists())

    def translate(source: Path, penalty: float) -> bytes:
        search = ["--beam-size", str(BEAM), "--normalize", str(penalty), "--cpu-threads", str(CORES)]
        command = [pymarian, "decode", "-m", str(best), "-v", *vocabs, *search, "--quiet"]
        return subprocess.run(command, input=source.read_bytes(), stdout=subprocess.PIPE, check=True).stdout

    return translate


def huggingface(out: Path, text: Path, minutes: float) -> Translate:
    """A Marian model of transformers, by its Seq2SeqTrainer."""
    import sentencepiece
    import torch
    from transformers import (
        MarianConfig,
        MarianMTModel,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
    )

    torch.set_num_threads(CORES)
    units = sentencepiece.SentencePieceProcessor(model_file=str(pieces(out, text)))
    padding, end = VOCABULARY, units.eos_id()

    def ids(name: str) -> list[list[int]]:
        return [[*units.encode(line), end] for line in lines(text / name)]

    def built() -> MarianMTModel:
        torch.manual_seed(1)
        side = {"layers": LAYERS, "attention_heads": HEADS, "ffn_dim": FEED_FORWARD}
        sides = {f"{name}_{key}": value for name in ("encoder", "decoder") for key, value in side.items()}
        symbols = {"pad_token_id": padding, "eos_token_id": end, "decoder_start_token_id": padding}
        sizes = {"vocab_size": VOCABULARY + 1, "d_model": WIDTH, "max_position_embeddings": 512}
        return MarianMTModel(MarianConfig(**sides, **symbols, **sizes, dropout=DROPOUT, scale_embedding=True))

    def pad(rows: Sequence[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        longest = {key: max(len(row[key]) for row in rows) for key in rows[0]}
        filler = {"input_ids": padding, "labels": -100}
        padded = {
            key: torch.tensor([row[key] + [filler[key]] * (longest[key] - len(row[key])) for row in rows])
            for key in rows[0]
        }
        before = torch.full((len(rows), 1), padding)  # after the labels, any id will do
        read = torch.cat((before, padded["labels"][:, :-1].relu()), 1)
        mask = (padded["input_ids"] != padding).long()
        return {**padded, "decoder_input_ids": read, "attention_mask": mask}

    rows = [
        {"input_ids": source[:256], "labels": target[:256]}
        for source, target in zip(ids("train.src"), ids("train.trg"), strict=True)
    ]

    def train(num_steps: int) -> MarianMTModel:
        arguments = Seq2SeqTrainingArguments(
            output_dir=str(out / "trainer"),
            per_device_train_batch_size=128,
            train_sampling_strategy="group_by_length",
            max_steps=num_steps,
            learning_rate=0.003,
            warmup_steps=num_steps // 10,
            adam_beta2=0.98,
            label_smoothing_factor=0.1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            seed=1,
        )
        model = built()
        trainer = Seq2SeqTrainer(model=model, args=arguments, train_dataset=rows, data_collator=pad)
        trainer.train()
        return model

    if not (out / "model").exists():
        began = time.monotonic()
        train(40)
        seconds = (time.monotonic() - began) / 40
        train(int((60 * minutes - 40 * seconds) / seconds)).save_pretrained(out / "model")
    model = MarianMTModel.from_pretrained(out / "model").eval()

    def translate(source: Path, penalty: float) -> bytes:
        found: list[str] = []
        rows = [{"input_ids": [*units.encode(line), end], "labels": [end]} for line in lines(source)]
        for start in range(0, len(rows), 64):
            batch = pad(rows[start : start + 64])
            search = {"num_beams": BEAM, "length_penalty": penalty, "max_new_tokens": 100}
            output = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], **search)
            found += [units.decode([each for each in row if each != padding]) for row in output.tolist()]
        return "".join(f"{line}\n" for line in found).encode()

    return translate


CONTENDERS = {"allyouneed": ours, "marian": marian, "huggingface": huggingface}


def main(out: Path, text: Path, minutes: float, names: Sequence[str]) -> None:
    """Train each contender, choose its length penalty, and score it on `test`."""
    for name in names or CONTENDERS:
        folder = out / name
        folder.mkdir(parents=True, exist_ok=True)
        result = folder / "result.json"
        if not result.exists():
            began = time.monotonic()
            translate = CONTENDERS[name](folder, text, minutes)
            trained = time.monotonic() - began
            on_valid = {}
            for penalty in PENALTIES:
                (folder / "valid").write_bytes(translate(text / "valid.src", penalty))
                on_valid[penalty] = bleu(folder / "valid", text / "valid.trg")
            best = max(on_valid, key=lambda penalty: on_valid[penalty])
            (folder / "test").write_bytes(translate(text / "test.src", best))
            scores = {"valid": on_valid, "penalty": best, "test": bleu(folder / "test", text / "test.trg")}
            result.write_text(json.dumps({"name": name, "train_seconds": round(trained), **scores}) + "\n")
        print(result.read_text(), end="", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
